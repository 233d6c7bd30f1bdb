/** The oracle's third part: what the tools did to the world, and who let them. Pure. */
import type { JournalLine } from "../helpers/tool-journal.ts";
import { countOf, type Evidence, type Lookup, type Violation } from "./evidence.ts";
import type { Told } from "./load.ts";

/** What is wrong with what the tools left behind. */
export function judgeEffects(evidence: Evidence, lookup: Lookup): Violation[] {
  const began = evidence.journal.filter(({ what }) => what === "began");
  return [
    ...evidence.load.told.flatMap((told) => leftBehind(told, evidence, lookup)),
    ...ranAgain(began, lookup),
    ...ranStale(began, evidence, lookup),
    ...evidence.staleAsks
      .filter(({ wrote }) => wrote)
      .map(({ uid, verb, epoch }) => ({
        broken: "a worker that has lost a run writes nothing to it",
        detail: `${verb} under epoch ${epoch}`,
        uid,
      })),
    ...evidence.collapses.map((detail) => ({ broken: "no worker process ends by itself", detail })),
  ];
}

/** A line of `note` at most once, and a missing one reported as interrupted; a line of `look` at least once. */
function leftBehind(told: Told, { workspaces }: Evidence, lookup: Lookup): Violation[] {
  const uid = lookup.uidOf(told) ?? "";
  const { notes, looks } = workspaces.get(`${told.parentId}/${told.agentId}`) ?? { notes: [], looks: [] };
  const [noted, looked] = [countOf(notes), countOf(looks)];
  const name = `story ${told.story.number}`;
  const problems: Violation[] = [];
  const complain = (broken: string, detail: string) => problems.push({ broken, detail, uid });
  for (const [line, times] of noted)
    if (times > 1)
      complain("an effect that is not idempotent happens once", `"${line}" stands ${times} times`);
  const foreign = [...noted.keys(), ...looked.keys()].filter(
    (line) => !told.story.notes.includes(line) && !told.story.looks.includes(line),
  );
  if (foreign.length > 0)
    complain("a workspace holds its own agent's files", `${name}: ${foreign.join(", ")}`);
  const missing = told.story.notes.filter((line) => !noted.has(line));
  const reported = lookup.interrupted.get(uid) ?? 0;
  if (missing.length > reported)
    complain(
      "an effect is there or reported unknown",
      `${name}: ${missing.join(", ")}; ${reported} reported`,
    );
  const unseen = told.story.looks.filter((line) => !looked.has(line));
  if (unseen.length > 0) complain("an idempotent effect happens in the end", `${name}: ${unseen.join(", ")}`);
  return problems;
}

function ranAgain(began: readonly JournalLine[], { committedAt }: Lookup): Violation[] {
  const resultAt = new Map<string, number>();
  for (const [key, at] of committedAt) {
    const [, uid, call] = /^(\S+) \d+\/(.+)\/result$/s.exec(key) ?? [];
    if (uid !== undefined) resultAt.set(`${uid} ${call}`, at);
  }
  return began.flatMap(({ at, uid, call, name }) => {
    const finishedAt = resultAt.get(`${uid} ${call}`) ?? Infinity;
    if (at <= finishedAt) return [];
    const detail = `${name} ${call} began ${Math.round(at - finishedAt)} ms after its result was committed`;
    return [{ broken: "no finished tool runs again", detail, uid }];
  });
}

function ranStale(began: readonly JournalLine[], { processes }: Evidence, { claims }: Lookup): Violation[] {
  const workerOf = new Map(processes.map(({ id, pid }) => [pid, id]));
  return began.flatMap(({ at, uid, pid, name, call }) => {
    const holder = claims.get(uid)?.findLast((claim) => claim.at <= at)?.worker;
    if (holder === undefined || holder === workerOf.get(pid)) return [];
    const detail = `${name} ${call} began in ${workerOf.get(pid)} while ${holder} held the run`;
    return [{ broken: "a worker that has lost a run starts no tool of it", detail, uid }];
  });
}
