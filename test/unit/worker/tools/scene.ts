/** A workspace on a real disk, with roots, neighbours and secrets around it, and a way to call the base tools in it. */

import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Clock, systemClock } from "../../../../src/shared/clock.ts";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import { createBaseTools } from "../../../../src/worker/tools/builtin/index.ts";
import { runTool, type ToolOutcome } from "../../../../src/worker/tools/registry.ts";
import { parseRoots } from "../../../../src/worker/tools/roots.ts";
import type { Tool, ToolContext } from "../../../../src/worker/tools/tool.ts";
import { openWorkspace, type Workspace } from "../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

export const SECRET = "TOP-SECRET-OUTSIDE";

export interface Scene {
  /** Host paths. */
  readonly base: string;
  readonly home: string;
  readonly outside: string;
  readonly readOnly: string;
  readonly writable: string;
  readonly workspace: Workspace;
  readonly tools: readonly Tool[];
  context(signal?: AbortSignal): ToolContext;
  call(name: string, input: unknown, signal?: AbortSignal): Promise<ToolOutcome>;
  put(path: string, content: string | Uint8Array): Promise<string>;
}

/** Ten times as patient as the system's: on a busy machine a search takes long that is none of the long ones. */
const patient: Clock = { ...systemClock, timeout: (ms, callback) => systemClock.timeout(10 * ms, callback) };

/** `base/state/…/agents/a1/workspace` is home; `base/outside`, the neighbours a2 and a1-evil hold secrets. */
export async function openScene(): Promise<Scene> {
  const base = await realpath(await mkdtemp(join(tmpdir(), "tools-")));
  closeAtEnd(() => rm(base, { recursive: true, force: true }));
  const [outside, readOnly, writable] = [join(base, "outside"), join(base, "repo"), join(base, "data")];
  for (const directory of [outside, readOnly, writable]) await mkdir(directory);
  await writeFile(join(outside, "secret.txt"), `${SECRET}\n`);
  const roots = parseRoots(`${readOnly}:ro,${writable}:rw`);
  if ("problem" in roots) throw new Error(roots.problem);
  const open = async (agentId: string): Promise<Workspace> => {
    const ids = { tenant: "default", parentId: "p", agentId, uid: `uid-${agentId}` };
    const surroundings = {
      root: join(base, "state"),
      roots: roots.roots,
      expected: false,
      clock: systemClock,
    };
    return (await openWorkspace({ ...ids, ...surroundings })).workspace;
  };
  for (const neighbour of ["a2", "a1-evil"]) {
    await writeFile(join((await open(neighbour)).directory, "secret.txt"), `${SECRET}\n`);
  }
  const workspace = await open("a1");
  const tools = createBaseTools({ clock: patient });
  const told: string[] = [];
  const context = (signal = new AbortController().signal): ToolContext => ({
    agentId: "a1",
    uid: "uid-a1",
    run: 1,
    toolUseId: "toolu_1",
    workspace,
    tellParent: (text) => void told.push(text),
    signal,
  });
  return {
    base,
    home: workspace.directory,
    outside,
    readOnly,
    writable,
    workspace,
    tools,
    context,
    call: (name, input, signal) =>
      runTool(
        tools.find((tool) => tool.name === name),
        { id: "toolu_1", name, input },
        context(signal),
        { offered: tools.map((tool) => tool.name), clock: systemClock, stop: stoppedBy(signal) },
      ),
    async put(path, content) {
      const absolute = join(workspace.directory, path);
      await mkdir(join(absolute, ".."), { recursive: true });
      await writeFile(absolute, content);
      return absolute;
    },
  };
}

/** Stops when `signal` aborts. */
export function stoppedBy(signal?: AbortSignal): StopSignal {
  const stop = new StopSignal();
  if (signal?.aborted) stop.stop();
  signal?.addEventListener("abort", () => stop.stop(), { once: true });
  return stop;
}
