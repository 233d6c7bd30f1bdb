/** The checks of agents, their replies and their workspaces. Pure. */
import { formatPlural } from "../figures.ts";
import type { Check } from "./check.ts";

const agents = (count: number) => formatPlural(count, "agent");
const are = (count: number) => (count === 1 ? "is" : "are");
const FIX = "doctor --fix";
const LET_SWEEP = `${FIX} does what is due; a live worker does it by itself`;

/** By stable name. */
export const AGENT_CHECKS = {
  stale_queued: {
    area: "agents",
    severity: "error",
    what: (count) =>
      `${agents(count)} ${are(count)} queued, overdue, and no wake will start ${count === 1 ? "it" : "them"}`,
    todo: LET_SWEEP,
    did: (count) => `${agents(count)} woken`,
  },
  stale_running: {
    area: "agents",
    severity: "error",
    what: (count) => `${agents(count)} ${count === 1 ? "runs" : "run"} under a lease that is long over`,
    todo: LET_SWEEP,
    did: (count) => `${agents(count)} woken for another worker`,
  },
  stale_waiting: {
    area: "agents",
    severity: "error",
    what: (count) => `${agents(count)} ${are(count)} waiting beyond the deadline of the answer`,
    todo: LET_SWEEP,
    did: (count) => `${agents(count)} given the default answer`,
  },
  overdue_age: {
    area: "agents",
    severity: "error",
    what: (count) => `${agents(count)} should have ended: a message went unanswered for too long`,
    todo: LET_SWEEP,
    did: (count) => `${agents(count)} ended`,
  },
  overdue_idle: {
    area: "agents",
    severity: "warn",
    what: (count) => `${agents(count)} should have ended: the idle time is over`,
    todo: LET_SWEEP,
    did: (count) => `${agents(count)} ended`,
  },
  unswept: {
    area: "agents",
    severity: "warn",
    what: (count) => `${agents(count)} ${are(count)} overdue though workers are live: nobody looks`,
    todo: `restart the workers: their sweepers do not work; ${FIX} looks once`,
    did: (count) => `${agents(count)} looked at`,
  },
  unwatched: {
    area: "agents",
    severity: "error",
    what: (count) =>
      `${agents(count)} would never be looked at: the deadline set does not have ${count === 1 ? "it" : "them"} in time`,
    todo: `${FIX} puts them there`,
    did: (count) => `${agents(count)} put into the deadline set`,
  },
  leaked_slots: {
    area: "agents",
    severity: "error",
    what: (count) =>
      `${formatPlural(count, "place")} of a parent's quota ${are(count)} taken by agents that ended or are gone`,
    todo: `${FIX} frees them`,
    did: (count) => `${formatPlural(count, "place")} freed`,
  },
  uncounted: {
    area: "agents",
    severity: "error",
    what: (count) => `${agents(count)} ${count === 1 ? "lives" : "live"} outside the quota of the parent`,
    todo: `${FIX} counts them again`,
    did: (count) => `${agents(count)} counted again`,
  },
  unnamed: {
    area: "agents",
    severity: "warn",
    what: (count) => `${agents(count)} cannot be reached by name: the registry leads elsewhere`,
    todo: `${FIX} registers those whose name is free; the others end by themselves`,
    did: (count) => `${agents(count)} registered`,
  },
  stray_members: {
    area: "agents",
    severity: "warn",
    what: (count) =>
      `${formatPlural(count, "entry", "entries")} of the deadline set ${count === 1 ? "names" : "name"} no live agent`,
    todo: LET_SWEEP,
    did: (count) => `${formatPlural(count, "entry", "entries")} taken out of the deadline set`,
  },
  orphaned_keys: {
    area: "agents",
    severity: "warn",
    what: (count) => `${agents(count)} ended or ${are(count)} gone and left keys behind`,
    todo: `${FIX} removes them`,
    did: (count) => `the keys of ${agents(count)} removed`,
  },
  newer_records: {
    area: "agents",
    severity: "warn",
    what: (count) =>
      `${agents(count)} ${count === 1 ? "was" : "were"} written by a newer version and not examined`,
    todo: "use the doctor of that version",
  },
  unreadable: {
    area: "agents",
    severity: "error",
    what: (count) => `${agents(count)} cannot be read: a key has another type, or its record no such status`,
    todo: "something else writes under this prefix: give it one of its own, then delete these keys",
  },
  incomplete: {
    area: "agents",
    severity: "warn",
    what: () => "not everything was examined",
    todo: "the rest is as it was: an installation of this size wants a Redis of its own",
  },
  unacked_replies: {
    area: "replies",
    severity: "warn",
    what: (count) => `${formatPlural(count, "parent")} left replies unacked for more than an hour`,
    todo: "is the parent still there? subagent-queue replies --parent <id> shows them; unacked ones go after 7 days",
  },
  expiring_replies: {
    area: "replies",
    severity: "error",
    what: (count) => `${formatPlural(count, "parent")} will lose unacked replies within a day`,
    todo: "read them: subagent-queue replies --parent <id> --ack",
  },
  missing_workspaces: {
    area: "workspaces",
    severity: "warn",
    what: (count) => `the files of ${formatPlural(count, "live agent")} are not on this machine`,
    todo: "put SUBAGENT_WORKSPACES on a volume that all hosts share; a run that goes on elsewhere tells the model",
  },
  orphaned_workspaces: {
    area: "workspaces",
    severity: "warn",
    what: (count) =>
      `${formatPlural(count, "workspace")} ${count === 1 ? "belongs" : "belong"} to no agent of this installation`,
    todo: "another prefix or Redis may use this directory; else look at them and delete them",
  },
  old_workspaces: {
    area: "workspaces",
    severity: "warn",
    what: (count) => `${formatPlural(count, "workspace")} of ended agents ${are(count)} older than 30 days`,
    todo: `${FIX} deletes them`,
    did: (count) => `${formatPlural(count, "workspace")} deleted`,
  },
} as const satisfies Record<string, Check>;
