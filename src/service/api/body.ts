/**
 * Reads the body of a request, the same way at every door: JSON as UTF-8, uncompressed, and small in each of its measures
 * before a parser sees it. What nests a million times, or holds a million values, would take the thread for seconds.
 *
 * 1. This process holds at most {@link MOST_HELD_BYTES} of bodies for one tenant, each from its announcement to the end of its
 *    answer. Another tenant's bodies count for themselves.
 */
import type { IncomingMessage } from "node:http";
import express, { type Request, type RequestHandler, type Response } from "express";
import { SubagentError } from "../../shared/errors.ts";
import { JSON_MAX_DEPTH } from "../../shared/protocol/message.ts";
import { principalOf } from "./auth.ts";

const MIB = 1_024 * 1_024;
/** Most bytes: a prompt and a system prompt of 256 KB each, with room for how JSON spells them; `large` also takes files. */
const MOST_BYTES = { small: MIB, large: 8 * MIB } as const;
/** What was read of a body is held as long as its request is answered: a task that waits holds its prompt and its files. */
const MOST_HELD_BYTES = 256 * MIB;
/** Most levels: those of an input, and of what a protocol writes around it. */
const MOST_DEPTH = 2 * JSON_MAX_DEPTH;
/** Most values: 64 files, a profile and its schemas have some thousands. */
const MOST_VALUES = 50_000;

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPENING_BRACKET, CLOSING_BRACKET, OPENING_BRACE, CLOSING_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * What a door puts behind the guard of its scope, in front of a handler that reads `request.body`. Fails with `too_large`,
 * `unsupported_media_type`, `invalid_input`, and with `rate_limited` while the tenant's bodies fill this process.
 */
export function readBody(size: keyof typeof MOST_BYTES): RequestHandler[] {
  const most = MOST_BYTES[size];
  const parse = express.json({
    limit: most,
    inflate: false,
    strict: false,
    verify(request, _response, bytes, encoding) {
      recounts.get(request)?.(bytes.length);
      // In another encoding these bytes would not be these characters.
      if (encoding !== "utf-8") throw refused("is not UTF-8");
      requireSmall(bytes);
    },
  });
  const hold: RequestHandler = (request, response, next) => {
    if (response.closed) return;
    const bytes = Math.min(announcedBytes(request), most);
    next(bytes === 0 ? undefined : holdBytes(request, response, bytes));
  };
  return [jsonAlone, hold, parse];
}

/** Bytes of bodies that this process holds, by tenant. */
const held = new Map<string, number>();
/** Replaces what was announced of a request's body by what has come. */
const recounts = new WeakMap<IncomingMessage, (bytes: number) => void>();

/** Counts `bytes` for the request's tenant until its answer has ended; answers the refusal where the tenant has no room for them. */
function holdBytes(request: Request, response: Response, bytes: number): SubagentError | undefined {
  const { tenant } = principalOf(request);
  let counted = 0;
  const count = (now: number) => {
    const sum = (held.get(tenant) ?? 0) + now - counted;
    counted = now;
    if (sum > 0) held.set(tenant, sum);
    else held.delete(tenant);
  };
  if ((held.get(tenant) ?? 0) + bytes > MOST_HELD_BYTES) {
    const sentence = `The bodies of this tenant's requests fill their ${MOST_HELD_BYTES / MIB} MiB of this process: wait until some are answered, or try another API process.`;
    return new SubagentError("rate_limited", sentence);
  }
  count(bytes);
  recounts.set(request, count);
  response.once("close", () => {
    recounts.delete(request);
    count(0);
  });
  return undefined;
}

/** How many bytes a request says its body has; infinitely many where it is sent in chunks, 0 where there is none. */
function announcedBytes({ headers }: Request): number {
  if (headers["transfer-encoding"] !== undefined) return Number.POSITIVE_INFINITY;
  return Number(headers["content-length"] ?? 0);
}

/** Refuses a body that says it is something else than JSON: left unread, its fields would be missed one by one. */
const jsonAlone: RequestHandler = (request, _response, next) => {
  const isEmpty = request.get("Content-Length") === "0";
  if (isEmpty || request.is("application/json") !== false) return next();
  const sentence = "The API accepts JSON bodies only: send it with Content-Type: application/json.";
  next(new SubagentError("unsupported_media_type", sentence));
};

/** Throws `invalid_input` where JSON text nests too deeply or has too many values; whether it is JSON the parser says. */
export function requireSmall(bytes: Buffer): void {
  let [depth, values] = [0, 1];
  for (let i = 0; i < bytes.length; i++) {
    switch (bytes[i]) {
      case QUOTE:
        i = endOfText(bytes, i);
        break;
      case OPENING_BRACKET:
      case OPENING_BRACE:
        depth += 1;
        values += 1;
        if (depth > MOST_DEPTH) throw refused(`nests deeper than ${MOST_DEPTH} levels: make it flatter`);
        break;
      case CLOSING_BRACKET:
      case CLOSING_BRACE:
        depth -= 1;
        break;
      case COMMA:
        values += 1;
    }
    if (values > MOST_VALUES) throw refused(`has more than ${MOST_VALUES} values: make it shorter`);
  }
}

/** Where the text ends that begins at `from`; where it does not end, behind the last byte. */
function endOfText(bytes: Buffer, from: number): number {
  for (let i = from + 1; i < bytes.length; i++) {
    if (bytes[i] === BACKSLASH) i += 1;
    else if (bytes[i] === QUOTE) return i;
  }
  return bytes.length;
}

function refused(what: string): SubagentError {
  return new SubagentError("invalid_input", `The body was refused, nothing was done: it ${what}.`);
}
