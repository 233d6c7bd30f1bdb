/** Guarantee: a model is told of each kind of agent in a few words. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createClient } from "../../../src/producer/client.ts";
import { createParent } from "../../../src/producer/parent.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

/** The properties of the tool that spawns, for an operator whose definitions have these descriptions, by name. */
async function propertiesWith(descriptions: Record<string, string>) {
  const folder = await mkdtemp(join(tmpdir(), "definitions-"));
  closeAtEnd(() => rm(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(descriptions))
    await writeFile(join(folder, `${name}.md`), `---\nname: ${name}\ndescription: ${text}\n---\nYou help.`);
  const client = createClient({ redisUrl: "redis://127.0.0.1:1", agents: [folder] });
  const parent = createParent({ client, parentId: "planner-7" });
  const tool = parent.tools().find(({ name }) => name === "spawn_sub_agent");
  return tool?.input_schema.properties as Record<string, { enum?: string[]; description?: string }>;
}

test("a long description of a kind is cut, a short one is whole", async () => {
  const { agent } = await propertiesWith({ long: "word ".repeat(1_000), short: "Runs the tests." });
  expect(agent?.enum).toEqual(expect.arrayContaining(["long", "short"]));
  const lines = agent?.description?.split("\n") ?? [];
  expect(lines).toContain("short: Runs the tests.");
  expect(lines.find((line) => line.startsWith("long: "))?.length).toBeLessThanOrEqual("long: ".length + 300);
});
