/**
 * Reads the body of a request, in the same way for every interface: JSON as UTF-8, uncompressed. It checks bytes, depth and
 * number of values and fields before the parser runs: a million of them would block the event loop for seconds.
 *
 * 1. This process holds at most {@link MOST_HELD_MIB} MiB of bodies for one tenant, each from its announcement to the end of its
 *    answer. Each tenant has its own limit.
 */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import express, { type Request, type RequestHandler } from "express";
import { SubagentError } from "../../shared/errors.ts";
import { JSON_MAX_DEPTH } from "../../shared/protocol/text.ts";
import { TenantBounds } from "./tenant-bounds.ts";

const MIB = 1_024 * 1_024;
/** Maximum bytes: a prompt and a system prompt of 256 KB each, with room for JSON escapes; `large` also takes files. */
const MOST_BYTES = { small: MIB, large: 8 * MIB } as const;
/** Maximum MiB of bodies per tenant. A body is held until its answer ends: a waiting task holds its prompt and files. */
const MOST_HELD_MIB = 256;
/** Maximum levels: those of an input, and those that a protocol adds around it. */
const MOST_DEPTH = 2 * JSON_MAX_DEPTH;
/** Maximum number of values: 64 files, a profile and its schemas have some thousands. */
const MOST_VALUES = 50_000;

/** Maximum number of fields of all objects: a field costs the parser ten times as much as a value. */
const MOST_FIELDS = 20_000;

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPENING_BRACKET, CLOSING_BRACKET, OPENING_BRACE, CLOSING_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Returns handlers that read `request.body`; an interface puts them after the guard of its scope. They fail with `too_large`,
 * `unsupported_media_type`, `invalid_input`, and with `rate_limited` while the tenant's bodies fill their limit.
 */
export function readBody(size: keyof typeof MOST_BYTES): RequestHandler[] {
  const most = MOST_BYTES[size];
  const parse = express.json({
    limit: most,
    inflate: false,
    strict: false,
    verify(request, _response, bytes, encoding) {
      recounts.get(request)?.(bytes.length);
      // `requireSmall` reads the bytes as UTF-8.
      if (encoding !== "utf-8") throw refused("is not UTF-8");
      // The parser would put U+FFFD in place of each other byte.
      if (!isUtf8(bytes)) throw refused("is not UTF-8: encode its text so");
      requireSmall(bytes);
    },
  });
  const hold: RequestHandler = (request, response, next) => {
    if (response.closed) return;
    const bytes = Math.min(announcedBytes(request), most);
    if (bytes > 0) recounts.set(request, held.hold(request, response, bytes));
    next();
  };
  return [jsonAlone, hold, parse];
}

const held = new TenantBounds({
  mostMib: MOST_HELD_MIB,
  what: "The bodies of this tenant's requests",
  advice: "wait until some are answered",
});
/** Functions that replace the announced size of a request's body by its real size. */
const recounts = new WeakMap<IncomingMessage, (bytes: number) => void>();

/** Returns the announced size of a request's body, bytes; infinity if it is sent in chunks, 0 if there is none. */
function announcedBytes({ headers }: Request): number {
  if (headers["transfer-encoding"] !== undefined) return Number.POSITIVE_INFINITY;
  return Number(headers["content-length"] ?? 0);
}

/** Refuses a body with another media type than JSON: otherwise it would stay unread, and its fields would seem missing. */
const jsonAlone: RequestHandler = (request, _response, next) => {
  const isEmpty = request.get("Content-Length") === "0";
  if (isEmpty || request.is("application/json") !== false) return next();
  const sentence = "The API accepts JSON bodies only: send it with Content-Type: application/json.";
  next(new SubagentError("unsupported_media_type", sentence));
};

/** Throws `invalid_input` if JSON text, `what` the sender calls it, nests too deeply or has too many values or fields. The parser checks the syntax. */
export function requireSmall(bytes: Buffer, what = "body"): void {
  let [depth, values, fields] = [0, 1, 0];
  for (let i = 0; i < bytes.length; i++) {
    switch (bytes[i]) {
      case QUOTE:
        i = endOfText(bytes, i);
        break;
      case OPENING_BRACKET:
      case OPENING_BRACE:
        depth += 1;
        values += 1;
        if (depth > MOST_DEPTH)
          throw refused(`nests deeper than ${MOST_DEPTH} levels: make it flatter`, what);
        break;
      case CLOSING_BRACKET:
      case CLOSING_BRACE:
        depth -= 1;
        break;
      case COMMA:
        values += 1;
        break;
      case COLON:
        fields += 1;
    }
    if (fields > MOST_FIELDS) throw refused(`has more than ${MOST_FIELDS} fields: make it shorter`, what);
    if (values > MOST_VALUES) throw refused(`has more than ${MOST_VALUES} values: make it shorter`, what);
  }
}

/** Returns the position of the quote that ends the text beginning at `from`; the length of `bytes` if it has no end. */
function endOfText(bytes: Buffer, from: number): number {
  for (let i = from + 1; i < bytes.length; i++) {
    if (bytes[i] === BACKSLASH) i += 1;
    else if (bytes[i] === QUOTE) return i;
  }
  return bytes.length;
}

function refused(why: string, what = "body"): SubagentError {
  return new SubagentError("invalid_input", `The ${what} was refused, nothing was done: it ${why}.`);
}
