/** The picture of the README shows what a sub-agent really did. UPDATE_PICTURE=1 draws it anew. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { drawLife, stepsOf } from "./helpers/life-picture.ts";
import { openStage } from "./stage/stage.ts";

const FILE = join(import.meta.dirname, "..", "docs", "life.svg");

test("docs/life.svg is drawn from the events of a run", async () => {
  const stage = await openStage({
    scenario: {
      turns: [
        {
          content: [
            { type: "tool_use", name: "write_file", input: { path: "orders.txt", content: "3 orders" } },
          ],
        },
        { content: [{ type: "text", text: "I saved 3 orders." }] },
      ],
    },
  });
  await stage.startWorker();
  const parent = stage.parent();
  const { agent_id } = await parent.spawn({ name: "Data Collector" });
  await parent.send(agent_id, "Save all orders");
  expect(await parent.waitAny([agent_id])).toMatchObject({ status: "succeeded" });
  const picture = drawLife(stepsOf(await parent.timeline(agent_id)));
  if (process.env.UPDATE_PICTURE) writeFileSync(FILE, picture);
  expect(readFileSync(FILE, "utf8")).toBe(picture);
});
