/** Gives the errors of the SDK a code of this API: it refuses some messages before a handler has them. */
import { z } from "zod";
import { ERRORS, type ErrorCode } from "../../shared/errors.ts";
import { isJsonObject } from "../../shared/protocol/content.ts";
import { RPC } from "./message.ts";

/** The code of an error of the SDK, by that of JSON-RPC; of all others it is `invalid_input`. */
const CODES: ReadonlyMap<number, ErrorCode> = new Map([
  [RPC.methodNotFound, "not_found"],
  [RPC.internal, "protocol_violation"],
]);
const Failure = z.looseObject({ error: z.looseObject({ code: z.number(), data: z.unknown().optional() }) });

/** Returns a message to a client; an error of the SDK comes with a code of this API, and with whether to try again. */
export function withErrorCode<M>(message: M): M {
  const error = Failure.safeParse(message).data?.error;
  if (!error) return message;
  const data = isJsonObject(error.data) ? error.data : {};
  if ("code" in data) return message;
  const code = CODES.get(error.code) ?? "invalid_input";
  return { ...message, error: { ...error, data: { ...data, code, retryable: ERRORS[code].retryable } } };
}

/** Returns an answer of the SDK; a refusal, which it sends as JSON before any server has the message, comes with a code of this API. */
export async function withCodeOf(answer: Response): Promise<Response> {
  const { status, headers, body } = answer;
  if (status < 400 || body === null) return answer;
  return Response.json(withErrorCode<unknown>(await answer.json()), { status, headers });
}
