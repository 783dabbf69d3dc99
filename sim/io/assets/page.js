// Everything on the page comes to life here.
const data = JSON.parse(document.getElementById("data").textContent);
const drawings = [() => drawCharts(data.curves)];
drawings[0]();
const tracks = document.querySelector(".tracks"), player = document.querySelector(".player");
if (tracks) drawings.push(startTracks(tracks, data.tracks));
if (player) startPlayer(player, data.takes);
let drawnAt = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === drawnAt) return; // on a phone the bars of the browser come and go
  drawnAt = window.innerWidth;
  for (const draw of drawings) draw();
});
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.of).textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch { // not allowed here: select it, so that the keyboard can copy it
      window.getSelection().selectAllChildren(document.getElementById(button.dataset.of));
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
}
