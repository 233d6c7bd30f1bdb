/** The oracle's first part: each parent received each reply once, with the result of the undisturbed run. Pure. */
import { isDeepStrictEqual } from "node:util";
import { countOf, type Evidence, type Lookup, type Outcome, outcomeKey, type Violation } from "./evidence.ts";

/** Returns the violations in the entries that reached the parents. */
export function judgeReplies(evidence: Evidence, lookup: Lookup): Violation[] {
  return [...complaints(evidence), ...lostOrWrong(evidence, lookup), ...streams(evidence), ...acks(evidence)];
}

function complaints({ load, stories }: Evidence): Violation[] {
  const broken = "a parent is refused nothing and gets every reply";
  const untold = stories.length - load.told.length;
  return [
    ...load.complaints.map(({ story, problem }) => ({ broken, detail: `story ${story}: ${problem}` })),
    ...(untold === 0 ? [] : [{ broken, detail: `${untold} stories were never told` }]),
  ];
}

function lostOrWrong({ load, undisturbed }: Evidence, lookup: Lookup): Violation[] {
  return load.told.flatMap((told) => {
    const uid = lookup.uidOf(told);
    const about = { ...(uid !== undefined && { uid }) };
    const own = load.seen.flatMap(({ entry, parentId }) =>
      parentId === told.parentId &&
      entry.agent_id === told.agentId &&
      entry.kind !== "message" &&
      entry.kind !== "question"
        ? [entry]
        : [],
    );
    const problems: Violation[] = told.story.prompts.flatMap((_, part) => {
      const replies = own.filter((entry) => entry.kind === "reply" && entry.run === part + 1);
      const broken = "every run ends with one reply, that of an undisturbed run";
      const name = `run ${part + 1} of story ${told.story.number}`;
      if (replies.length !== 1)
        return [{ broken, detail: `${name} has ${replies.length} replies`, ...about }];
      const expected = undisturbed.get(outcomeKey(told.story, part + 1));
      const got = replies.map(outcomeOf)[0];
      // A run that fails even without faults would equal the undisturbed run, so success is checked first.
      if (got?.status !== "succeeded" || got.turns !== told.story.turns[part]) {
        const detail = `${name} came to ${JSON.stringify(got)}`;
        return [{ broken: "every run does what it was asked for", detail, ...about }];
      }
      if (isDeepStrictEqual(got, expected)) return [];
      const detail = `${name} came to ${JSON.stringify(got)} instead of ${JSON.stringify(expected)}`;
      return [{ broken, detail, ...about }];
    });
    const ends = own.filter((entry) => entry.kind === "ended").length;
    const expectedEnds = told.story.prompts.length > 1 ? 1 : 0;
    if (ends === expectedEnds && own.length === told.story.prompts.length + expectedEnds) return problems;
    const detail = `story ${told.story.number}: ${own.length} final entries, ${ends} of them ends`;
    return [...problems, { broken: "an agent has one end", detail, ...about }];
  });
}

/** Returns the fields that are compared with an undisturbed run. */
export function outcomeOf({ status, stop_reason, summary, turns, tools_called }: Outcome): Outcome {
  return { status, stop_reason, summary, turns, tools_called };
}

function streams({ load, happenings }: Evidence): Violation[] {
  const written = countOf(happenings.flatMap((one) => (one.what === "entry" ? [one.replyId] : [])));
  const seen = countOf(load.seen.map(({ entry }) => entry.reply_id));
  const broken = "each entry is written once and seen once";
  return [...new Set([...written.keys(), ...seen.keys()])].flatMap((replyId) => {
    const [w, s] = [written.get(replyId) ?? 0, seen.get(replyId) ?? 0];
    if (w === 1 && s === 1) return [];
    const uid = replyId.split(".")[0] ?? "";
    return [{ broken, detail: `${replyId} was written ${w} times and seen ${s} times`, uid }];
  });
}

function acks({ load }: Evidence): Violation[] {
  return load.seen
    .filter(({ first }) => first !== true)
    .map(({ entry, first }) => ({
      broken: "the only reader is the first to ack",
      detail: `the ack of ${entry.reply_id} answered ${first}`,
      uid: entry.reply_id.split(".")[0] ?? "",
    }));
}
