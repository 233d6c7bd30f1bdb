/** Wraps the real model port, and records the model, instructions and tools of each call. */
import { createAnthropicModel } from "../../src/worker/model/anthropic/model.ts";
import type { Model } from "../../src/worker/model/model.ts";
import { requestBody } from "../../src/worker/model/request.ts";
import { closeAtEnd } from "./cleanup.ts";

/** The recorded parts of one request. */
export interface RequestHead {
  model: string;
  system: string;
  tools: string[];
  /** The messages, as JSON. */
  messages: string;
  /** `output_config` of the body, and below it the header `anthropic-beta`. */
  outputConfig: unknown;
  beta: string | undefined;
}

interface Sent {
  output_config?: unknown;
  model: string;
  system?: { text: string }[];
  tools?: { name: string }[];
}

/** Returns a model that calls `baseUrl` and records the head and the deadline (monotonic ms) of every request. */
export function recordingModel(baseUrl: string): {
  model: Model;
  heads: RequestHead[];
  deadlinesMs: number[];
} {
  const real = createAnthropicModel({ apiKey: "offline", baseUrl });
  closeAtEnd(() => real.stop());
  const heads: RequestHead[] = [];
  const deadlinesMs: number[] = [];
  const model: Model = {
    limiterName: (id) => real.limiterName?.(id) ?? id,
    stop: () => real.stop(),
    call(request, control) {
      const {
        model: id,
        system = [],
        tools = [],
        output_config: outputConfig,
      } = JSON.parse(requestBody(request, false)) as Sent;
      heads.push({
        model: id,
        system: system.map(({ text }) => text).join("\n"),
        tools: tools.map(({ name }) => name),
        messages: request.messages,
        outputConfig,
        beta: request.beta,
      });
      deadlinesMs.push(control.deadlineMs);
      return real.call(request, control);
    },
  };
  return { model, heads, deadlinesMs };
}
