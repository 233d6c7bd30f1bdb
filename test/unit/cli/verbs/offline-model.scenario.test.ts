import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { startHere } from "../../../helpers/program.ts";
import { CLEAN } from "../../../helpers/program-on-stage.ts";

test("with a scenario it says that it plays that file, and not that it answers by rule", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "scenario-"));
  closeAtEnd(() => rmSync(cwd, { recursive: true }));
  const turns = [{ content: [{ type: "text", text: "Hello" }] }];
  writeFileSync(join(cwd, "slow.json"), JSON.stringify({ turns, repeat: true }));
  const model = startHere(["offline-model", "--port", "0", "--scenario", "slow.json"], { cwd, env: CLEAN });
  await model.waitForLine(/^ready: /);
  expect(model.stdout[0]).toBe(
    'offline model: plays "slow.json", NOT an LLM; set ANTHROPIC_API_KEY for a real one',
  );
});
