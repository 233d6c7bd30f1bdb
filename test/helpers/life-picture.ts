/** Draws the README's picture: the events of one sub-agent as an SVG with arrows between four lanes. Pure. */
import type { NumberedEvent } from "../../src/producer/events.ts";

const LANES = { parent: 80, redis: 330, worker: 600, outside: 850 } as const;
type Lane = keyof typeof LANES;

/** One arrow of the picture. */
export interface Step {
  from: Lane;
  to: Lane;
  text: string;
}

const TITLES: Record<Lane, string> = {
  parent: "parent",
  redis: "Redis",
  worker: "any worker",
  outside: "model, tools",
};
const [TOP, ROW, WIDTH] = [70, 34, 940];

/** Returns the arrows of a run, from the parent's first call to its ack. */
export function stepsOf(events: readonly NumberedEvent[]): Step[] {
  return [
    { from: "parent", to: "redis", text: "spawn, send" },
    ...events.flatMap(stepOf),
    { from: "redis", to: "parent", text: "reply: summary, status, reason" },
    { from: "parent", to: "redis", text: "ack" },
  ];
}

function stepOf(event: NumberedEvent): Step[] {
  switch (event.type) {
    case "run_started":
      return [{ from: "redis", to: "worker", text: "claim: a lease on the run" }];
    case "turn_started":
      return [{ from: "worker", to: "outside", text: `turn ${event.turn}: model call` }];
    case "turn_finished":
      return [{ from: "worker", to: "redis", text: "commit: answer, tokens, cost" }];
    case "tool_started":
      return [{ from: "worker", to: "outside", text: `tool: ${event.tool}` }];
    case "tool_finished":
      return [{ from: "worker", to: "redis", text: "commit: result of the tool" }];
    case "ended":
      return [{ from: "worker", to: "redis", text: `settle: ${event.status}` }];
    default:
      return [];
  }
}

/** Returns the SVG, which adapts to a light or dark colour scheme. */
export function drawLife(steps: readonly Step[]): string {
  const height = TOP + ROW * steps.length + 20;
  const lanes = Object.entries(LANES).map(
    ([lane, x]) =>
      `<text class="title" x="${x}" y="28">${TITLES[lane as Lane]}</text><line class="lane" x1="${x}" y1="40" x2="${x}" y2="${height - 10}"/>`,
  );
  const arrows = steps.map(({ from, to, text }, n) => {
    const [x1, end, y] = [LANES[from], LANES[to], TOP + ROW * n];
    const x2 = end > x1 ? end - 7 : end + 7;
    return `<text x="${(x1 + end) / 2}" y="${y - 6}">${text}</text><line class="step" x1="${x1}" y1="${y}" x2="${x2}" y2="${y}" marker-end="url(#tip)"/>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="One sub-agent from its spawn to the ack of its reply">
<style>
text { font: 14px system-ui, sans-serif; fill: #1b1f24; text-anchor: middle }
.title { font-weight: 700 } .lane { stroke: #8c959f; stroke-dasharray: 3 4 } .step { stroke: #0550ae; stroke-width: 1.5 } #tip path { fill: #0550ae }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .lane { stroke: #6e7681 } .step { stroke: #7cb7ff } #tip path { fill: #7cb7ff } }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>
${lanes.join("\n")}
${arrows.join("\n")}
</svg>
`;
}
