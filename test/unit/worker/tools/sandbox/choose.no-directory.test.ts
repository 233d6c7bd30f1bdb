/** Guarantee: a worker that can write no temporary file starts, and says why it does not offer `bash`. */
import { afterEach, expect, it, vi } from "vitest";
import { chooseRunner } from "../../../../../src/worker/tools/sandbox/choose.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

it.runIf(process.platform === "linux")("bash is not offered without a temporary directory", async () => {
  vi.stubEnv("TMPDIR", "/no/such/directory");
  const { runner, sentence } = await chooseRunner({ production: false, runsc: "/none/runsc" });
  expect(runner).toBeUndefined();
  expect(sentence).toContain(
    "(bubblewrap: no directory can be made in /no/such/directory (ENOENT): name one that can be written in TMPDIR; runsc: ",
  );
});
