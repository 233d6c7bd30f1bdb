/** All rules in their order, and the next turn of a conversation by rule. Pure. */
import type { Conversation } from "../conversation.ts";
import { askParent } from "./ask-parent.ts";
import { countComments } from "./count-comments.ts";
import { echo } from "./echo.ts";
import { listFiles } from "./list-files.ts";
import { shorten } from "./lookup.ts";
import { luaPurpose } from "./lua-purpose.ts";
import { absolutePathIn } from "./paths.ts";
import { research } from "./research.ts";
import { reviewFile } from "./review-file.ts";
import { answer, type Draft, type Rule, type Task } from "./rule.ts";
import { testFramework } from "./test-framework.ts";
import { writeFile } from "./write-file.ts";

const LOOKING: readonly Rule[] = [askParent, testFramework, luaPurpose, countComments, reviewFile, listFiles];
const SPECIFIC: readonly Rule[] = [
  writeFile((task) => ruleFor(task.text, [...LOOKING, research]).next(task)),
  ...LOOKING,
];

/** True when a rule of its own, and not just research or the echo, answers a text. */
export function isSpecific(text: string): boolean {
  return SPECIFIC.some((rule) => rule.matches(text));
}

/** The next turn of a conversation. With `handBack` no rule may call a tool, so each answers from what it has. */
export function nextByRule(conversation: Conversation): Draft {
  const task = taskOf(conversation);
  const rule = ruleFor(task.text, [...SPECIFIC, research]);
  if (conversation.handBack && task.steps.length === 0 && rule !== echo) {
    return answer(`Handed back before anything was looked up for: “${shorten(task.text, 300)}”`);
  }
  return rule.next(task);
}

function ruleFor(text: string, rules: readonly Rule[]): Rule {
  return rules.find((rule) => rule.matches(text)) ?? echo;
}

function taskOf(conversation: Conversation): Task {
  const newest = conversation.asks.at(-1) ?? conversation.asks[0];
  const absolute = absolutePathIn(newest.text);
  const places = absolute === undefined ? conversation.openDirectories : [absolute];
  return { ...newest, offered: conversation.offered, places: places.length === 0 ? ["."] : places };
}
