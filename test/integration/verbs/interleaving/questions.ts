/** Questions as calls that judge their own answers, the program that answers, and what must always hold of them. */

import { z } from "zod";
import type { AgentAddress } from "../../../../src/shared/protocol/keys.ts";
import { answerEntry } from "../../../../src/shared/protocol/log.ts";
import { OpenQuestion } from "../../../../src/shared/protocol/message.ts";
import type { VerbInput } from "../../../../src/shared/redis/scripts.ts";
import { agentIn, isHolder, make, must, numberIn, unchanged } from "./call.ts";
import type { AgentShot } from "./shot.ts";
import type { World } from "./world.ts";

const Questions = z.array(OpenQuestion);

/** The ids of the questions that an agent waits with, oldest first. */
function openIn({ record }: AgentShot): string[] {
  if (record.status !== "waiting") return [];
  return Questions.parse(JSON.parse(record.questions ?? "[]")).map(({ question_id }) => question_id);
}

/** `ask`: by the holder, once; marks, entries and status together. */
export function* ask(world: World, agent: AgentAddress, input: VerbInput<"ask">) {
  return yield* make({
    name: "ask",
    agent,
    make: () => world.rig.store.ask(agent, input),
    judge(answer, before, after) {
      const [was, is] = [agentIn(before, agent), agentIn(after, agent)];
      const mayAsk = isHolder(was, input.epoch);
      if (answer.status !== "asked" || !mayAsk) {
        unchanged(before, after);
        const again = was.record.asked_epoch === `${input.epoch}` && was.record.epoch === `${input.epoch}`;
        must((answer.status === "asked") === again, "only who has asked is told so again", answer, was);
        must(
          (answer.status === "finishing") === (mayAsk && was.record.finish === "1"),
          "finishing",
          answer,
          was,
        );
        return;
      }
      must(was.record.finish !== "1", "asked although the parent wants an end", was);
      const ids = (input.questions ?? []).map(([id]) => id);
      must(openIn(is).join() === ids.join(), "asked, but it does not wait with that", is);
      const said = after.fresh.map(({ fields }) => fields.question_id);
      must(said.join() === ids.join(), "the parent was not told what was asked", after.fresh);
      for (const id of ids) world.asked.set(`${agent.uid} ${id}`, agent);
    },
  });
}

/** `answer`: the first one stands; a sweeper's not before the deadline. */
export function* answer(
  world: World,
  agent: AgentAddress,
  by: "parent" | "sweeper",
  questionId: string,
  text: string,
) {
  return yield* make({
    name: `answer by ${by}`,
    agent,
    make: () =>
      world.rig.store.answer(agent, { authority: by, question_id: questionId, entry: answerEntry(text) }),
    judge(answered, before, after) {
      const [was, is] = [agentIn(before, agent), agentIn(after, agent)];
      const key = `${questionId}/result`;
      const open = openIn(was);
      if (answered.status !== "queued" && answered.status !== "waiting") {
        unchanged(before, after);
        if (was.record.status === "ended") {
          const wasGiven = was.transcript[key] && JSON.parse(was.transcript[key]).content === text;
          return must(answered.status === (wasGiven ? "same" : "ended"), "answered the dead", answered, was);
        }
        if (answered.status === "not_due")
          return must(by === "sweeper" && numberIn(was, "deadline") > before.nowMs, "not_due", was);
        const stored = was.log[key] && JSON.parse(was.log[key]).content;
        const word = stored === undefined ? "unknown_question" : stored === text ? "same" : "answered";
        must(answered.status === word, `it should say ${word}`, answered, was);
        must(!open.includes(questionId), "an open question takes no answer", was);
        return;
      }
      must(open.includes(questionId), "answered what is not open", was, questionId);
      must(by === "parent" || numberIn(was, "deadline") <= after.nowMs, "a default before its time", was);
      must(JSON.parse(is.log[key] ?? "{}").content === text, "an answer that is not in the log", is);
      const left = open.filter((id) => id !== questionId);
      must(openIn(is).join() === left.join(), "the wrong questions are left", was, is);
      must((answered.status === "queued") === (left.length === 0), "the last answer queues", answered, was);
      if (answered.status === "waiting") return;
      must(is.record.status === "queued", "queued, but it does not stand as queued", is);
      must(numberIn(is, "wake") === numberIn(was, "wake") + 1, "a wake that is not new", was, is);
    },
  });
}

/** Which question is answered next: mostly an open one, else any that was ever asked, or none at all. */
export function chooseQuestion(
  world: World,
  pick: (n: number) => number,
): { agent: AgentAddress; questionId: string } | undefined {
  const asked = [...world.asked].map(([name, agent]) => ({
    agent,
    questionId: pick(12) === 0 ? "0/none" : name.slice(agent.uid.length + 1),
  }));
  const open = asked.filter(({ agent, questionId }) =>
    openIn(agentIn(world.shot, agent)).includes(questionId),
  );
  const from = open.length > 0 && pick(4) > 0 ? open : asked;
  return from[pick(Math.max(1, from.length))];
}

/** What must hold of an agent's questions at any time: open while it waits, and left alone only for an end. */
export function checkQuestions(world: World, uid: string, is: AgentShot): void {
  const { status, finish } = is.record;
  const open = openIn(is);
  must((status === "waiting") === open.length > 0, "waiting without a question", is);
  if (status === "ended") return;
  for (const [name, owner] of world.asked) {
    if (owner.uid !== uid) continue;
    const id = name.slice(uid.length + 1);
    must(is.log[`${id}/started`] !== undefined, "a question without its mark", id, is);
    const isAnswered = is.log[`${id}/result`] !== undefined;
    must(!(isAnswered && open.includes(id)), "a question is answered and open", id, is);
    if (isAnswered || open.includes(id)) continue;
    must(finish === "1" || world.leftOpen.has(name), "a question was dropped without an end", id, is);
    world.leftOpen.add(name);
  }
}
