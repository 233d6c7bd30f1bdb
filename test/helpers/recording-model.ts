/** The real model port, and what each call said before its messages: which model, what instructions, which tools. */
import { createAnthropicModel } from "../../src/worker/model/anthropic/model.ts";
import type { Model } from "../../src/worker/model/model.ts";
import { requestBody } from "../../src/worker/model/request.ts";
import { closeAtEnd } from "./cleanup.ts";

/** The head of one request. */
export interface RequestHead {
  model: string;
  system: string;
  tools: string[];
  /** The messages, as JSON. */
  messages: string;
  /** What the bytes of the body say under `output_config`, and the header `anthropic-beta`. */
  outputConfig: unknown;
  beta: string | undefined;
}

interface Sent {
  output_config?: unknown;
  model: string;
  system?: { text: string }[];
  tools?: { name: string }[];
}

/** A model that calls `baseUrl` and keeps the head of every request. */
export function recordingModel(baseUrl: string): { model: Model; heads: RequestHead[] } {
  const real = createAnthropicModel({ apiKey: "offline", baseUrl });
  closeAtEnd(() => real.stop());
  const heads: RequestHead[] = [];
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
      return real.call(request, control);
    },
  };
  return { model, heads };
}
