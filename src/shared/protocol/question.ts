/** A sub-agent's question to its parent: what the model may give, and what stands in the record until it is answered. */
import { z } from "zod";

/** The tool by which a sub-agent asks. */
export const ASK_TOOL = "ask_parent";
/** Most code points of a question, and of the default answer that comes with it. */
const QUESTION_MAX_CHARS = 5_000;

const words = (what: string) =>
  z
    .string()
    .refine((text) => text.trim() !== "", `the ${what} is empty`)
    .refine((text) => [...text].length <= QUESTION_MAX_CHARS, `at most ${QUESTION_MAX_CHARS} characters`);

/** What the model gives. How long the question waits is its parent's to say, never the model's. */
export const QuestionInput = z.object({
  question: words("question").describe("Complete: your parent does not see this conversation"),
  default_answer: words("default answer").optional().describe("Holds if no answer comes in time"),
});
/** See {@link QuestionInput}. */
export type QuestionInput = z.infer<typeof QuestionInput>;

/** A question that waits for its answer. `question_id`: `<message>/<tool_use_id>`, unique within its agent. */
export const OpenQuestion = z.object({
  question_id: z.string(),
  text: z.string(),
  default_answer: z.string().optional(),
});
/** See {@link OpenQuestion}. */
export type OpenQuestion = z.infer<typeof OpenQuestion>;

/** What the model reads when its parent did not answer in time. */
export function defaultAnswerTo({ default_answer }: OpenQuestion): string {
  return default_answer === undefined
    ? "No answer came in time. Go on with your best judgement, and say in your report what you assumed."
    : `No answer came in time, so your default holds: ${default_answer}`;
}
