// Everything on the page comes to life here.
const data = JSON.parse(document.getElementById("data").textContent);
drawCharts(data.curves);
window.addEventListener("resize", () => drawCharts(data.curves));
const player = document.querySelector(".player");
if (player) startPlayer(player, data.takes);
