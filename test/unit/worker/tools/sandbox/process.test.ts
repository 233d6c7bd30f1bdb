import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { hasDied } from "../../../../../src/worker/tools/sandbox/process.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { until } from "../../../../helpers/until.ts";

/** Starts a process and a child of it, for whose end it never asks; answers both ids. */
async function startPair(): Promise<{ parent: number; child: number }> {
  const parent = spawn("/bin/sh", ["-c", "sleep 60 & echo $!; exec sleep 60"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  closeAtEnd(() => void parent.kill("SIGKILL"));
  const [said] = (await once(parent.stdout, "data")) as [Buffer];
  // A shell would ask.
  await until(() => readFileSync(`/proc/${parent.pid}/comm`, "utf8") === "sleep\n");
  return { parent: parent.pid ?? 0, child: Number(said.toString()) };
}

const untold = (pid: number) => ({ pid, exitCode: null, signalCode: null });

describe.runIf(process.platform === "linux")("whether a child has died", () => {
  it("is seen before the event loop tells it", async () => {
    const { parent, child } = await startPair();
    expect(hasDied(untold(child))).toBe(false);
    process.kill(child, "SIGKILL");
    await until(() => / Z /.test(readFileSync(`/proc/${child}/stat`, "utf8")));
    expect(hasDied(untold(child))).toBe(true);
    expect(hasDied(untold(parent))).toBe(false);
  });

  it("is not confused by the name of its program", () => {
    const { title } = process;
    process.title = "a) Z 1";
    expect(hasDied(untold(process.pid))).toBe(false);
    process.title = title;
  });

  it("follows from how it ended", () => {
    expect(hasDied({ pid: process.pid, exitCode: 0, signalCode: null })).toBe(true);
    expect(hasDied({ pid: process.pid, exitCode: null, signalCode: "SIGKILL" })).toBe(true);
  });
});
