/** Asks the parent what the request says it should be asked, and hands its answer on. Pure. */
import { complaints, shorten } from "./lookup.ts";
import { answer, call, consult, type Rule } from "./rule.ts";

const ORDER = /\bask your parent\b[\s:,–-]*([^\n]+?(?:\?|(?=[.;\n]|$)))/i;

/** Calls `ask_parent` with what follows "ask your parent", up to the end of the question. */
export const askParent: Rule = {
  name: "ask-parent",
  matches: (text) => ORDER.test(text),
  next(task) {
    const question = shorten(ORDER.exec(task.text)?.[1]?.trim() ?? task.text, 1_000);
    const asked = consult(task, [{ name: "ask_parent", input: { question } }]);
    if (asked.status === "pending") return call("I ask my parent.", asked.calls);
    const [step] = asked.steps;
    if (!step) return answer("I could not ask: `ask_parent` may not be used now.");
    return answer(step.failed ? `I got no answer: ${complaints(asked.steps)}` : step.output);
  },
};
