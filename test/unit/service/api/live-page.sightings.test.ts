/** The agents that the live page shows, from a parent's events and its list of live agents. */
import { expect, test } from "vitest";
import { agentsAfter, createSightings } from "../../../../web/sightings.js";

const about = { agent_id: "agent", name: "عامل", run: 1, turn: 1 };

test.for([
  ["a question", { type: "waiting", question: "Which city?" }],
  ["a missing tool", { type: "waiting_for_tools", tools: ["browse"] }],
])("an agent that has ended waits for nothing, also one that waited for %s", ([, waiting]) => {
  const sightings = createSightings();
  for (const event of [waiting, { type: "ended", status: "cancelled", stop_reason: "destroyed" }])
    sightings.hear({ rawEvent: { ...about, ...Object(event) } });
  expect(agentsAfter(sightings, [])).toEqual([
    expect.objectContaining({ name: "عامل", status: "cancelled", question: "", waits: "" }),
  ]);
});
