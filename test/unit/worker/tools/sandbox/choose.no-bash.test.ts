/** Guarantee: a machine without `/bin/bash` (an image of Alpine) does not offer a tool all of whose commands would fail. */
import { expect, it, vi } from "vitest";
import { chooseRunner } from "../../../../../src/worker/tools/sandbox/choose.ts";

vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  const access = (path: string, mode: number) =>
    real.access(path === "/bin/bash" ? "/no/such/bash" : path, mode);
  return { ...real, access };
});

it("bash is not offered without a sandbox either", async () => {
  const { runner, sentence } = await chooseRunner({ mode: "unsandboxed", production: false });
  expect(runner).toBeUndefined();
  expect(sentence).toMatch(/^bash is not offered: there is no \/bin\/bash here\. Install it/);
});
