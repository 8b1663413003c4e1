const told = await fetch("api/runs").then((answer) => answer.json());
document.getElementById("runs").textContent = told.runs.map((run) => `${run.name}: ${run.rounds}`).join("\n");
