/** A healthy installation as the doctor sees it, for tests that make one thing wrong. */
import type { Facts, WorkspaceFacts } from "../../../../src/cli/doctor/facts.ts";
import type { AgentSnapshot, RecordSnapshot } from "../../../../src/shared/redis/inspection.ts";

/** The moment of every look. */
export const NOW_MS = 1_800_000_000_000;

/** An agent in order: queued since now, watched, counted, named; `record: null` for one that is gone. */
export function snapshot({
  record,
  ...more
}: Partial<Omit<AgentSnapshot, "record">> & { record?: Partial<RecordSnapshot> | null } = {}): AgentSnapshot {
  return {
    address: { tenant: "default", parentId: "planner", uid: "sa-000000000000000000000001" },
    nowMs: NOW_MS,
    record:
      record === null
        ? undefined
        : {
            version: 1,
            agentId: "worker",
            status: "queued",
            deadline: NOW_MS + 10_000,
            leaseUntil: 0,
            tooOldAt: NOW_MS + 86_400_000,
            wake: 1,
            worker: "",
            crashes: 0,
            breaks: 0,
            isNamed: true,
            ...record,
          },
    lifeMs: -1,
    log: 0,
    inbox: 1,
    attachments: 0,
    timeline: 0,
    isCounted: true,
    nextCheckMs: NOW_MS + 10_000,
    ...more,
  };
}

/** An installation in order, with one live worker. */
export function facts(more: Partial<Facts> = {}): Facts {
  return {
    nowMs: NOW_MS,
    hostNowMs: NOW_MS,
    host: "here",
    isProduction: false,
    servers: [
      {
        product: "redis",
        version: "7.0.15",
        aof: "on",
        appendfsync: "everysec",
        evictionPolicy: "noeviction",
        role: "master",
        usedMemoryBytes: 5_000_000,
        maxMemoryBytes: 0,
        problems: [],
        troubles: [],
      },
    ],
    agents: [],
    suspects: [],
    unreadable: [],
    mistyped: [],
    strayMembers: [],
    channels: 0,
    oldReplies: [],
    unpushed: [],
    refusedEntries: { count: 0, newest: [] },
    workers: [workerSight()],
    wakes: { waiting: 0, active: 0, delayed: 0, isPaused: false, next: undefined },
    pause: undefined,
    limiters: [],
    areWakesStuck: false,
    bounds: { keys: 1_000, agents: 100 },
    reached: [],
    workspaces: NO_WORKSPACES,
    budgets: [],
    ...more,
  };
}

/** A live worker that announced itself a second ago. */
export function workerSight(
  more: Partial<Facts["workers"][number]["worker"]> = {},
): Facts["workers"][number] {
  const announcedAtMs = NOW_MS - 1_000;
  const worker = {
    v: 1 as const,
    id: "here-1",
    host: "here",
    version: "0.1.0",
    tools: ["grep"],
    model: "m",
    concurrency: 50,

    now: announcedAtMs,
    ...more,
  };
  return { worker, announcedAtMs };
}

/** No workspaces on this machine. */
export const NO_WORKSPACES: WorkspaceFacts = {
  root: "/w",
  isThere: true,
  isFull: false,
  directories: [],
  missing: [],
  isCut: false,
};
