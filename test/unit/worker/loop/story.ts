/** Logs for the tests of the loop, written entry by entry as a worker would. */
import type { ContentBlock, JsonObject, Usage } from "../../../../src/shared/protocol/content.ts";
import { usageText, ZERO_USAGE } from "../../../../src/shared/protocol/content.ts";
import { type AssistantEntry, entryKey, type FailureEntry } from "../../../../src/shared/protocol/log.ts";
import type { InboxMessage } from "../../../../src/shared/protocol/message.ts";
import type { CapReason } from "../../../../src/shared/protocol/reply.ts";
import { readLog } from "../../../../src/worker/loop/log.ts";
import type { RunRules } from "../../../../src/worker/loop/rules.ts";
import { RunState } from "../../../../src/worker/loop/state.ts";
import type { ModelMessage } from "../../../../src/worker/model/model.ts";

/** What a run knows beside its log. */
export type Now = Partial<Pick<RunState, "unread" | "inboxRead" | "elapsedMs" | "finish" | "overBudget">>;

/** Generous limits under which no cap triggers, narrowed by `limits`. */
export function rules(limits: Partial<RunRules["limits"]> = {}, more: Partial<RunRules> = {}): RunRules {
  return {
    limits: { max_turns: 30, max_tokens: 100, max_duration_ms: 1_800_000, ...limits },
    model: "asked-for",
    idempotentTools: new Set(["look"]),
    canAsk: false,
    ...more,
  };
}

export const text = (words: string): ContentBlock => ({ type: "text", text: words });
export const call = (id: string, name = "write", input: JsonObject = { id }): ContentBlock => ({
  type: "tool_use",
  id,
  name,
  input,
});
export const message = (words: string): InboxMessage => ({
  v: 1,
  message_id: `m${words.length}`,
  text: words,
});
export const used = (tokens: number): Usage => ({ ...ZERO_USAGE, output_tokens: tokens });

/** An entry as it is stored. */
export function storedJson(entry: object): string {
  const [[, usage] = []] = Object.entries(entry).filter(([name]) => name === "usage");
  return JSON.stringify({ v: 1, ...entry, ...(usage && { usage: JSON.parse(usageText(usage)) }) });
}

/** The messages of the run's next call. */
export function conversation({ conversation: spoken }: RunState, finalCall?: CapReason): ModelMessage[] {
  return JSON.parse(`[${spoken.request(finalCall).messages}]`);
}

/** A log that grows; `n` is the number of the user message that it is at. */
export class Story {
  readonly entries: [key: string, json: string][] = [];
  n = 0;
  run = 1;
  consumed = 0;

  add(key: string, entry: object): this {
    this.entries.push([key, storedJson(entry)]);
    return this;
  }

  /** The parent's messages, delivered as user message `n`. */
  user(...texts: string[]): this {
    this.consumed += texts.length;
    return this.add(entryKey.message(this.n), { run: this.run, messages: texts.map(message) });
  }

  /** The model answers message `n`. */
  model(stop: string, content: ContentBlock[] = [], more: Partial<AssistantEntry> = {}): this {
    this.add(entryKey.message(this.n + 1), {
      content,
      stop_reason: stop,
      model: "answering",
      usage: used(10),
      cost_usd: 0.25,
      duration_ms: 5,
      ...more,
    });
    this.n += 2;
    return this;
  }

  /** The model asks for tools, and nothing has been done about it. */
  asks(...calls: ContentBlock[]): this {
    return this.model("tool_use", calls);
  }

  started(id: string, name = "write"): this {
    return this.add(entryKey.started(this.n - 1, id), { name });
  }

  result(id: string, content = `result of ${id}`, isError = false): this {
    return this.add(entryKey.result(this.n - 1, id), { content, is_error: isError, duration_ms: 1 });
  }

  /** The call could not be performed at all. */
  refused(id: string): this {
    const entry = { content: `no ${id}`, is_error: true, duration_ms: 0, refused: true };
    return this.add(entryKey.result(this.n - 1, id), entry);
  }

  /** The call was not allowed. */
  denied(id: string): this {
    const entry = { content: `may not ${id}`, is_error: true, duration_ms: 0, denied: true };
    return this.add(entryKey.result(this.n - 1, id), entry);
  }

  /** The model makes one call of `name` and gets its result. */
  calls(id: string, name = "write", input: JsonObject = { id }): this {
    return this.asks(call(id, name, input))
      .started(id, name)
      .result(id);
  }

  failure(kind: FailureEntry["kind"], finalCall?: FailureEntry["hand_back"]): this {
    return this.add(entryKey.failure(this.n + 1), {
      kind,
      message: `it was a ${kind}`,
      ...(finalCall && { hand_back: finalCall }),
    });
  }

  notice(words: string): this {
    return this.add(entryKey.notice(this.n), { text: words });
  }

  /** From message `n` on the results through those of message `through` are left out. */
  cleared(through: number, goesOn = false): this {
    return this.add(entryKey.cleared(this.n, through), { through, ...(goesOn && { go_on: true }) });
  }

  /** A call that was cut off by this side. */
  purchase(tokens: number, costUsd: number, k = 0): this {
    const entry = { usage: used(tokens), cost_usd: costUsd, cut_off: true };
    return this.add(entryKey.purchase(this.n + 1, 1, k), entry);
  }

  /** A call whose answer could not be used. */
  broken(tokens: number, costUsd: number, k = 0): this {
    return this.add(entryKey.purchase(this.n + 1, 1, k), { usage: used(tokens), cost_usd: costUsd });
  }

  /** The next run of a kept-alive agent, at message `n`. */
  nextRun(n = this.n): this {
    this.run += 1;
    this.n = n;
    return this;
  }

  /** Where the run stands with this log. */
  log(now: Now = {}): RunState {
    return Object.assign(new RunState(this.run, readLog(this.entries)), { inboxRead: this.consumed, ...now });
  }
}

/** A run that was asked one thing. */
export function asked(...texts: string[]): Story {
  return new Story().user(...(texts.length > 0 ? texts : ["What is it?"]));
}
