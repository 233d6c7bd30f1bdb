import { expect, test } from "vitest";
import { EXIT } from "../../../../src/cli/command.ts";
import { startHere } from "../../../helpers/program.ts";
import { CLEAN } from "../../../helpers/program-on-stage.ts";

test("an address of the health checks without a port is refused, for no health check would be served", async () => {
  // Nothing answers there, and a worker that begins waits for it without limit.
  const env = { ...CLEAN, REDIS_URL: "redis://127.0.0.1:1" };
  const worker = ["worker", "--health-host", "0.0.0.0"];
  expect(await startHere(worker, { cwd: import.meta.dirname, env }).closed).toEqual({
    code: EXIT.usage,
    stdout: [],
    stderr: [expect.stringMatching(/--health-host needs a port: .*SUBAGENT_HEALTH_PORT\.$/)],
  });
});
