import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { chooseRunner } from "../../../../../src/worker/tools/sandbox/choose.ts";
import { openScene } from "../scene.ts";

it.runIf(process.platform === "linux")("gVisor has no network, and says so to who gave it one", async () => {
  const runsc = join((await openScene()).base, "runsc");
  const proof = "workspace processes network capabilities gvisor";
  writeFileSync(runsc, `#!/bin/bash\nprintf '%s\\n' ${proof}\n`, { mode: 0o755 });
  const sentence = async (more: object) => (await chooseRunner({ mode: "runsc", runsc, ...more })).sentence;
  expect(await sentence({})).toMatch(/^bash runs in runsc, without network[,.](?! which)/);
  expect(await sentence({ egress: { hosts: "example.com" } })).toContain(
    "without network, which needs bubblewrap here",
  );
});
