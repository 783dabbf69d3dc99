// The page of a run that goes on: asks for what is new, until the report is there.
const takes = [];
let version = 0, started = false;

function showEntries(entries) {
  if (!entries.length) return;
  const names = ["iteration", "loss", ...Object.keys(entries[0].parameters)];
  const cell = (kind, text) => {
    const made = document.createElement(kind);
    made.className = "number";
    made.textContent = text;
    return made;
  };
  const number = (value) => (Array.isArray(value) ? `${value.length} values` : shortNumber(value));
  document.querySelector(".names").replaceChildren(...names.map((name) => cell("th", name)));
  document.querySelector(".entries").replaceChildren(...entries.map((entry) => {
    const row = document.createElement("tr");
    const values = [entry.iteration, number(entry.loss), ...Object.values(entry.parameters).map(number)];
    row.replaceChildren(...values.map((text) => cell("td", text)));
    return row;
  }));
}

async function ask() {
  let answer;
  try {
    answer = await fetch(`state?since=${version}`);
  } catch { // the command has ended
    document.querySelector(".badge").textContent = "ended";
    return;
  }
  if (answer.status === 200) {
    const state = await answer.json();
    version = state.version;
    if (state.ended) {
      location.replace("report");
      return;
    }
    showEntries(state.entries);
    if (state.takes && !started) {
      takes.push(...state.takes);
      startPlayer(document.querySelector(".player"), takes);
      started = true;
    } else if (state.takes) document.dispatchEvent(new CustomEvent("takes", { detail: state.takes }));
  }
  setTimeout(ask, 500);
}
ask();
