/** `ask` and `answer` as calls of their scripts. A pure translation, as in `verbs.ts`. */
import type { AgentAddress, Keys } from "../protocol/keys.ts";
import type { ToolResultEntry } from "../protocol/log.ts";
import type { OpenQuestion } from "../protocol/question.ts";
import { bodyJson, type ReplyBody } from "../protocol/reply.ts";
import type { Timing } from "../protocol/timing.ts";
import type { Answer } from "./script-table.ts";
import type { Scripts } from "./scripts.ts";
import type { Fence } from "./verbs.ts";

/** What `ask` commits: the questions of one turn, each with the mark of its call, JSON. */
export interface AskInput extends Fence {
  runningMs: number;
  /** How long they wait. */
  answerMs: number;
  questions: readonly { question: OpenQuestion; started: string }[];
  progress: ReplyBody;
  /** One line of the content-free step list, JSON. */
  step: string;
}

/** The answer to one question: the parent's, or at the deadline a sweeper's. `text` becomes the result of the call. */
export interface AnswerInput {
  by: "parent" | "sweeper";
  questionId: string;
  text: string;
}

/** The verbs of questions: the holder asks, the parent or a sweeper answers. */
export interface QuestionVerbs {
  ask(address: AgentAddress, input: AskInput): Promise<Answer<"ask">>;
  answer(address: AgentAddress, input: AnswerInput): Promise<Answer<"answer">>;
}

/** See {@link QuestionVerbs}. */
export function questionVerbs(scripts: Scripts, keys: Keys, timing: Timing): QuestionVerbs {
  return {
    ask(address, { questions, ...input }) {
      const { record, log, steps } = keys.agent(address);
      const { replies, doorbell } = keys.parent(address);
      return scripts.run(
        "ask",
        { record, log, replies, steps },
        {
          epoch: input.epoch,
          known: input.known,
          answer_ms: input.answerMs,
          running_ms: Math.round(input.runningMs),
          progress: bodyJson(input.progress),
          step: input.step,
          doorbell,
          reply_ttl_ms: timing.replyTtlMs,
        },
        questions.flatMap(({ question: { question_id, text, default_answer = "" }, started }) => [
          question_id,
          started,
          text,
          default_answer,
        ]),
      );
    },
    answer(address, { by, questionId, text }) {
      const { record, log } = keys.agent(address);
      // The same text gives the same bytes, whoever says it and when: that is how a repetition is known.
      const entry: ToolResultEntry = { v: 1, content: text, is_error: false, duration_ms: 0 };
      return scripts.run(
        "answer",
        { record, log },
        { authority: by, question_id: questionId, entry: JSON.stringify(entry), look_ms: timing.lookMs },
      );
    },
  };
}
