import { expect, test } from "vitest";
import { EXIT } from "../../../../src/cli/command.ts";
import { startHere } from "../../../helpers/program.ts";
import { CLEAN } from "../../../helpers/program-on-stage.ts";

test("a ledger without a path is refused as input, with the flag in the sentence", async () => {
  const ledger = ["offline-model", "--port", "0", "--ledger", ""];
  expect(await startHere(ledger, { cwd: import.meta.dirname, env: CLEAN }).closed).toEqual({
    code: EXIT.usage,
    stdout: [],
    stderr: ["subagent-queue: --ledger cannot be used: write the path of a file."],
  });
});
