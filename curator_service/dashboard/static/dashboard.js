// What pages do beside htmx: copy a text, and let cells say what they are where a screen is too narrow for their row.
// Whatever has no script has no button for the one, and scrolls wide tables.
"use strict";
for (const button of document.querySelectorAll("button[data-copies]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
    button.textContent = "Copied";
  });
}
function labelCells(part) {
  for (const table of part.querySelectorAll("table.list")) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((head) => head.textContent.trim());
    for (const body of table.tBodies)
      for (const row of body.rows)
        [...row.cells].forEach((cell, place) => { if (heads[place]) cell.dataset.label = heads[place]; });
    table.classList.add("stacks");
  }
}
labelCells(document);
document.addEventListener("htmx:load", (event) => labelCells(event.target.parentElement ?? document));
