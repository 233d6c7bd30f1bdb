/** The oracle's third part: judges the effects of tools, and whether their worker held the run. Pure. */
import type { JournalLine } from "../helpers/tool-journal.ts";
import { countOf, type Evidence, type Lookup, type Violation } from "./evidence.ts";
import type { Told } from "./load.ts";
import { isCaughtByJump } from "./oracle-jumps.ts";
import { callOf } from "./stories.ts";

/** Returns the violations in the effects of the tools. */
export function judgeEffects(evidence: Evidence, lookup: Lookup): Violation[] {
  const began = evidence.journal.filter(({ what }) => what === "began");
  const judged = began.filter(
    (line) => holderAt(line, lookup) === line.worker || !isCaughtByJump(evidence, lookup, line),
  );
  return [
    ...evidence.load.told.flatMap((told) => leftBehind(told, evidence, lookup)),
    ...unearned(began, evidence, lookup),
    ...ranTwice(judged, lookup),
    ...ranAgain(judged, lookup),
    ...ranStale(judged, lookup),
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

/** Checks that each line of `note` occurs at most once, is reported as interrupted if missing, and each of `look` occurs. */
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
  const isReported = (line: string) => lookup.results.get(`${uid} ${callOf(line)}`)?.interrupted === true;
  const missing = told.story.notes.filter((line) => !noted.has(line) && !isReported(line));
  if (missing.length > 0)
    complain("an effect is there or reported unknown", `${name}: ${missing.join(", ")}`);
  const unseen = told.story.looks.filter((line) => !looked.has(line));
  if (unseen.length > 0) complain("an idempotent effect happens in the end", `${name}: ${unseen.join(", ")}`);
  return problems;
}

/** Checks that each call of a story has a result in the log, and that it began unless it is reported as interrupted. */
function unearned(began: readonly JournalLine[], { load }: Evidence, lookup: Lookup): Violation[] {
  const made = new Set(began.map(({ uid, call }) => `${uid} ${call}`));
  return load.told.flatMap((told) => {
    const uid = lookup.uidOf(told) ?? "";
    return [...told.story.notes, ...told.story.looks].flatMap((line) => {
      const call = `${uid} ${callOf(line)}`;
      const result = lookup.results.get(call);
      if (!result) return [{ broken: "every tool call has a result", detail: line, uid }];
      if (result.interrupted || made.has(call)) return [];
      return [{ broken: "a result stands for a call that was made", detail: line, uid }];
    });
  });
}

/** Checks that a holder makes each call of a run at most once; only the next holder may repeat an idempotent call. */
function ranTwice(began: readonly JournalLine[], lookup: Lookup): Violation[] {
  const under = began.map((line) => `${line.uid} ${line.call} ${claimAt(line, lookup)?.epoch}`);
  return [...countOf(under)].flatMap(([call, times]) => {
    if (times === 1) return [];
    const [uid = "", name, epoch] = call.split(" ");
    const detail = `${name} began ${times} times under epoch ${epoch}`;
    return [{ broken: "no tool call is made twice under one claim", detail, uid }];
  });
}

/** Returns the claim that held the run at this time. The journal's times are whole ms, rounded down. */
function claimAt({ uid, at }: JournalLine, { claims }: Lookup) {
  return claims.get(uid)?.findLast((claim) => claim.at < at + 1);
}

const holderAt = (line: JournalLine, lookup: Lookup) => claimAt(line, lookup)?.worker ?? "nobody";

function ranAgain(began: readonly JournalLine[], { results }: Lookup): Violation[] {
  return began.flatMap(({ at, uid, call, name }) => {
    const finishedAt = results.get(`${uid} ${call}`)?.at ?? Infinity;
    if (at <= finishedAt) return [];
    const detail = `${name} ${call} began ${Math.round(at - finishedAt)} ms after its result was committed`;
    return [{ broken: "no finished tool runs again", detail, uid }];
  });
}

function ranStale(began: readonly JournalLine[], lookup: Lookup): Violation[] {
  return began.flatMap((line) => {
    const { uid, worker, name, call } = line;
    const holder = holderAt(line, lookup);
    if (worker === holder) return [];
    const detail = `${name} ${call} began in ${worker} while ${holder} held the run`;
    return [{ broken: "a worker that has lost a run starts no tool of it", detail, uid }];
  });
}
