/** Bounds and forms of a message to the MCP server, the same for every transport. Pure. */
import {
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  parseJSONRPCMessage,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { readInput, requireFewFields } from "../../producer/input.ts";
import { SubagentError } from "../../shared/errors.ts";
import { isJsonObject } from "../../shared/protocol/content.ts";
import { problemDocument } from "../api/problem.ts";

/** JSON-RPC's codes of an error. */
export const RPC = {
  parseError: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internal: -32_603,
} as const;
/** Maximum characters of a message besides the tool's input: an answer repeats the id, and may repeat the rest. */
const MOST_ENVELOPE_CHARS = 16_384;
const MOST_NAME_CHARS = 128;
const NO_JSON_RPC =
  'This is no message of JSON-RPC: send jsonrpc as "2.0", a method or a result, and an id that is text or a whole number.';

const WithParams = z.object({ params: z.unknown() });
const Message = z.looseObject({ params: z.looseObject({}).optional() });
const Call = z.looseObject({ id: z.union([z.string(), z.number()]), method: z.literal("tools/call") });

/** Parameters whose arguments have the right type: these are not looked into. */
const WithArguments = z.looseObject({ arguments: z.custom(isJsonObject).transform(() => ({})) });

/** Parameters of `tools/call`. */
export const CallParams = z.looseObject({
  name: z.string().max(MOST_NAME_CHARS),
  arguments: z.record(z.string(), z.unknown()).default({}),
});

/**
 * Returns `value` as a message. Throws `invalid_input` unless it is one message of JSON-RPC with few fields, a short envelope, and
 * few arguments or answers. Refuses a list of messages: neither revision of the protocol has them, and the rate limit would count
 * the list as one request. `place`: what carries the message.
 */
export function readMessage(value: unknown, place: "request" | "line"): JSONRPCMessage {
  requireFewFields(value, "message");
  requireFewFields(WithParams.safeParse(value).data?.params, "params");
  const message = Message.safeParse(value).data;
  if (!message)
    throw new SubagentError("invalid_input", `Send one JSON-RPC message a ${place}, as an object.`);
  const { params: { arguments: given, inputResponses, ...named } = {}, ...envelope } = message;
  requireFewFields(given, "arguments");
  requireFewFields(inputResponses, "inputResponses");
  if (JSON.stringify([envelope, named]).length > MOST_ENVELOPE_CHARS) {
    const sentence = `The message has more than ${MOST_ENVELOPE_CHARS} characters besides its arguments: shorten its id, names and _meta.`;
    throw new SubagentError("invalid_input", sentence);
  }
  try {
    return parseJSONRPCMessage(value);
  } catch (error) {
    // The SDK would refuse it without a code.
    throw new SubagentError("invalid_input", NO_JSON_RPC, {}, error);
  }
}

/**
 * Returns the answer to a `tools/call` whose parameters have a wrong form; undefined for every other message. The SDK checks them
 * before any handler, and answers with the issues of its schemas.
 */
export function refusalOfCall(message: unknown): JSONRPCErrorResponse | undefined {
  const { data: call } = Call.safeParse(message);
  if (!call) return undefined;
  try {
    const { data: params = call.params } = WithArguments.safeParse(call.params);
    readInput(CallParams, params, "tools/call");
    return undefined;
  } catch (error) {
    const { detail, code, retryable, details } = problemDocument(error, undefined);
    const data = { code, retryable, ...(details && { details }) };
    return { jsonrpc: "2.0", id: call.id, error: { code: RPC.invalidParams, message: detail, data } };
  }
}
