/** Guarantee: a full disk of the workspaces is named by readiness and timeline, counts against no run, and is waited for. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { SubagentError } from "../../../src/shared/errors.ts";
import { run } from "../../../src/worker/run/run.ts";
import { bundled } from "../../helpers/bundle.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { runHere } from "../../helpers/program.ts";
import { killWhenWeAreGone } from "../../helpers/reaper.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

/** Mounts a small file system, fills it, and becomes the program, in a mount namespace of its own. */
const ON_FULL_DISK =
  'mount -t tmpfs -o size=64k tmpfs "$1" && ! head -c 1M /dev/zero >"$1/filling" && shift && exec "$@"';

/** Returns the arguments of `unshare`, and the environment, for a command whose workspaces are on a full disk. */
async function onFullDisk({ url, prefix, workspaceRoot, offline }: Stage, ...command: string[]) {
  const alone = process.getuid?.() === 0 ? ["--mount"] : ["--mount", "--user", "--map-root-user"];
  const program = [process.execPath, await bundled("src/cli/main.ts"), ...command];
  const env = {
    ...process.env,
    REDIS_URL: url,
    SUBAGENT_PREFIX: prefix,
    SUBAGENT_WORKSPACES: workspaceRoot,
    ANTHROPIC_API_KEY: "offline",
    ANTHROPIC_BASE_URL: offline.url,
  };
  return { args: [...alone, "sh", "-c", ON_FULL_DISK, "sh", workspaceRoot, ...program], env };
}

/** Starts `subagent-queue worker` whose workspaces are on a full disk. */
async function workerOnFullDisk(stage: Stage) {
  const { workspaceRoot } = stage;
  const { args, env } = await onFullDisk(stage, "worker", "--health-port", "0");
  const child = spawn("unshare", args, { env, stdio: ["ignore", "ignore", "pipe"] });
  const pid = child.pid ?? 0;
  const closed = once(child, "close");
  const release = killWhenWeAreGone(pid);
  closeAtEnd(async () => {
    child.kill("SIGKILL");
    await closed;
    await release();
  });
  const lines: string[] = [];
  createInterface({ input: child.stderr }).on("line", (line) => lines.push(line));
  const served = await until(() => lines.find((line) => line.includes("Health checks")), {
    what: "the worker's health port",
    timeoutMs: 60_000,
  });
  const { url: health } = JSON.parse(served) as { url: string };
  return {
    readiness: async () => (await fetch(`${health}/readyz`)).json() as Promise<{ reasons: string[] }>,
    /** Makes room; the worker's namespace is reached through its process. */
    empty: () => rmSync(join("/proc", `${pid}`, "root", workspaceRoot, "filling")),
  };
}

const scenario = {
  turns: [
    {
      content: [
        { type: "tool_use" as const, name: "write_file", input: { file_path: "a.txt", content: "a" } },
      ],
    },
    { content: [{ type: "text" as const, text: "done" }] },
  ],
};

test("readiness and timeline name the full disk, and the run goes on once there is room", async () => {
  const stage = await openStage({ scenario });
  const { url, prefix, workspaceRoot } = stage;
  const agent = await stage.task("work");
  const worker = await workerOnFullDisk(stage);
  const full = `the disk of the workspaces (${workspaceRoot}) is full`;
  await until(async () => (await worker.readiness()).reasons.includes(full));
  const waits = await stage.recordWhere(
    agent,
    ({ status, not_before }) => status === "queued" && not_before !== undefined,
  );
  expect(waits).toMatchObject({ breaks: 0, attempts: 1, crashes_without_progress: 0 });
  const env = {
    REDIS_URL: url,
    SUBAGENT_PREFIX: prefix,
    SUBAGENT_TENANT: agent.tenant,
    SUBAGENT_LOG_LEVEL: "silent",
  };
  const show = ["show", waits.agent_id, "--parent", agent.parentId];
  const { stdout, stderr } = await runHere(show, { cwd: workspaceRoot, env });
  expect([...stdout, ...stderr].join("\n")).toContain(
    "handed back to the queue: the disk of its worker's workspaces is full",
  );
  worker.empty();
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", turns: 2 });
  expect((await worker.readiness()).reasons).toEqual([]);
  expect(stage.offline.ledger).toHaveLength(2);
});

test("a run that meets a full disk after many breaks is handed back, not ended, and the disk adds no break", async () => {
  const stage = await openStage({ scenario: { turns: scenario.turns.slice(1) } });
  const { store, redis, keys } = stage;
  const agent = await stage.task("work");
  await redis.hset(keys.agent(agent).record, { breaks: "7" });
  const full = Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
  const settle = () =>
    Promise.reject(new SubagentError("setup_failed", "The workspace cannot be opened.", {}, full));
  const context = runContextOf(stage, { store: { ...store, settle } });
  expect(await run(context, { address: agent, wake: 1, timesTaken: 1 })).toEqual({
    status: "released",
    reason: "disk_full",
  });
  expect(await stage.record(agent)).toMatchObject({ status: "queued", breaks: 7, attempts: 1 });
});

test("the doctor names the full disk of its host's workspaces", async () => {
  const stage = await openStage({ scenario });
  const { args, env } = await onFullDisk(stage, "doctor", "--json");
  const said = await promisify(execFile)("unshare", args, { env }).catch(
    (error: { stdout: string }) => error,
  );
  const { findings } = JSON.parse(said.stdout) as { findings: unknown[] };
  expect(findings).toContainEqual(
    expect.objectContaining({
      check: "full_workspaces",
      severity: "error",
      what: "the disk of the workspaces is full",
    }),
  );
});
