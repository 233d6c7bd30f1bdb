/**
 * Registry of the secrets in this process. Text for a model, a parent or a log passes {@link withoutSecrets} first.
 *
 * Owns: the values, for the life of the process. The module that receives a secret registers it: the model's adapter its
 * key, a Redis connection its password, an MCP server its headers and environment.
 *
 * 1. A value is found unchanged, as JSON (also JSON within JSON) and URLs spell it, as hexadecimal digits, and within base64
 *    text at any offset. In a whole text it is also found if the lines of base64 or hexadecimal digits are broken.
 * 2. A text without secrets is returned unchanged; while no secret is registered, no text is scanned.
 * 3. Values of fewer than 8 characters are not kept, because ordinary words contain them: use longer secrets. Also not kept:
 *    words, if the name leaves doubt, and values that only describe a secret (`AUTH_TYPE`, `TOKEN_URL`, `KEY_FILE`).
 */

const MIN_CHARS = 8;
/** Replacement for a secret in a text. */
export const MASK = "[redacted]";

/** Returns `text` with the user name and password of every URL masked. */
export function withoutLogins(text: string): string {
  return text.includes("://") ? text.replace(/(?<=:\/\/)[^\s/@]+(?=@)/g, MASK) : text;
}
/** Maximum number of secrets, enough for one process; beyond that the oldest are dropped. */
const MAX_SECRETS = 256;
/** Matches names of headers and variables whose values are secrets. */
const SECRET_NAME = /auth(?!or(?!i))|cookie|credential|key|pass|secret|token/i;
/** Matches endings of names that describe a secret: its kind, its location, its size. */
const ABOUT_A_SECRET =
  /(?:algorithm|audience|dir|directory|email|endpoint|expiry|file|format|host|issuer|limit|method|mode|name|path|policy|provider|scheme|scope|size|sock|ttl|type|ur[il]|version)$/i;
/** Matches names whose values are secrets, whatever the value looks like. */
const ALWAYS_SECRET_NAME =
  /(?:authorization|pass(?:phrase|wd|word)|secret|token|(?:access|api|private)[-_]?key)$/i;
/** Matches one word, as settings spell their options. */
const WORD = /^(?:[A-Z]?[a-z]+|[A-Z]+)$/;
const WORD_MAX_CHARS = 12;

/** Spellings of a secret. `whole`: in one piece; `digits`: those whose lines may be broken. */
interface Spellings {
  whole: readonly string[];
  digits: readonly string[];
}

const spellings = new Map<string, Spellings>();
let known: readonly string[] = [];
let digits: readonly string[] = [];
let beginnings: PrefixIndex | undefined;

/** Registers a secret of at least 8 characters: from now on it is masked. */
export function keepSecret(value: string | undefined): void {
  if (value === undefined || value.length < MIN_CHARS || spellings.has(value)) return;
  // If a value was read with its line end, programs print it without.
  if (value !== value.trim()) keepSecret(value.trim());
  spellings.set(value, { whole: spellingsOf(value), digits: digitsOf(value) });
  const [oldest] = spellings.keys();
  if (spellings.size > MAX_SECRETS && oldest !== undefined) spellings.delete(oldest);
  // Longest first, because one spelling may contain another.
  const all = [...spellings.values()];
  known = [...new Set(all.flatMap(({ whole }) => whole))].sort((a, b) => b.length - a.length);
  digits = all.flatMap((each) => each.digits);
  beginnings = beginningsOf([...known, ...digits]);
}

/** Registers the values whose names mark them as secret, the secrets within them, and the passwords of all URLs. */
export function keepSecretsOf(values: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(values)) {
    keepNamed(name, value);
    keepUrlPassword(value);
  }
}

/** Registers a named value; also the last word of `Bearer x`, the password of `Basic x`, and each value of a cookie. */
function keepNamed(name: string, whole: string): void {
  const value = whole.trim();
  if (mayBeSecret(name, value)) keepSecret(whole);
  const [scheme = "", ...words] = value.split(/\s+/);
  const parts = [value, words.at(-1) ?? ""];
  if (/cookie/i.test(name))
    parts.splice(1, 1, ...value.split(/;\s*/).map((pair) => pair.replace(/^[^=]*=/, "")));
  if (/^basic$/i.test(scheme))
    parts.push(
      Buffer.from(words.join(""), "base64")
        .toString()
        .replace(/^[^:]*:/, ""),
    );
  for (const part of parts) if (mayBeSecret(name, part)) keepSecret(part);
}

/** Returns false for ordinary words, because they would be masked in everything that a model writes. */
function mayBeSecret(name: string, value: string): boolean {
  if (!SECRET_NAME.test(name) || ABOUT_A_SECRET.test(name)) return false;
  return ALWAYS_SECRET_NAME.test(name) || value.length > WORD_MAX_CHARS || !WORD.test(value);
}

/** Matches a random key: neither a path nor a word. */
const LOOKS_RANDOM = /^(?![/.~])(?=\S*\d)(?=\S*[A-Za-z])\S{16,}$/;

/**
 * Registers the environment's values that are secret by their name and look random, and the passwords of all URLs in it.
 * This covers variables of other programs too.
 */
export function keepSecretsOfEnvironment(env: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value = ""] of Object.entries(env)) {
    if (mayBeSecret(name, value.trim()) && LOOKS_RANDOM.test(value.trim())) keepSecret(value);
    keepUrlPassword(value);
  }
}

/** Registers the password of a URL, as written and decoded, and the query parameters that are secret by their name. */
export function keepUrlPassword(address: string): void {
  // The last @ ends the login, because a password may contain @ and slashes.
  const password = /:\/\/[^\s:]*:(\S+)@/.exec(address)?.[1];
  keepSecret(password);
  const parsed = URL.canParse(address) ? new URL(address) : undefined;
  if (password !== undefined && /^(?:[^%]|%[0-9a-f]{2})*$/i.test(password)) keepSecret(decoded(password));
  if (parsed) keepSecretsOf(Object.fromEntries(parsed.searchParams));
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Matches a variable in an argument, before a command or after a short option: `TOKEN=x`, `-eTOKEN=x`. Paths do not match. */
const VARIABLE = /^(?:-\w)?([A-Za-z_][\w-]*)=(?![/.~])(\S+)/;
/** Matches a header in an argument: `Authorization: Bearer x`. A volume does not match: a path follows its colon. */
const HEADER = /^(?:-\w)?([A-Za-z_][\w-]*)\s*:\s*(?![/.~\s])(\S.*)$/s;

/** Registers secrets in a program's arguments: `--api-key=x`, `--token x`, `--header 'Authorization: Bearer x'`, `-e TOKEN=x`. */
export function keepSecretsOfArguments(args: readonly string[]): void {
  for (const [i, arg] of args.entries()) {
    const [, name = "", own] = /^--?([\w-]+)(?:=(.+))?$/s.exec(arg) ?? [];
    const value = own ?? args[i + 1] ?? "";
    if (own !== undefined || !value.startsWith("--")) keepNamed(name, value);
    for (const form of [VARIABLE, HEADER]) {
      const [, field = "", meant = ""] = form.exec(own ?? arg) ?? [];
      keepNamed(field, meant);
    }
    keepUrlPassword(arg);
  }
}

/** Returns `text` with every known secret masked. */
export function withoutSecrets(text: string): string {
  if (!beginnings?.mightContain(text)) return text;
  let clean = text;
  for (const spelling of known) if (clean.includes(spelling)) clean = clean.replaceAll(spelling, MASK);
  return digits.length > 0 && MAY_BE_BROKEN.test(clean) ? withoutBroken(clean) : clean;
}

/** Index of the spellings' first characters. Nearly every text contains none of them, so one scan is enough. */
interface PrefixIndex {
  mightContain(text: string): boolean;
}

const BEGINNING_CHARS = 4;
/** Matches characters that beginnings are compared without: those that break lines of digits, and some more. */
const SKIPPED = /[^!-9;-~]|\\[nr]/g;
const [BLANK, COLON, BACKSLASH, TILDE, N, R] = [32, 58, 92, 126, 110, 114];

function beginningsOf(all: readonly string[]): PrefixIndex {
  // A text may have a backslash before a first n or r; the scan skips both.
  const begun = all.flatMap((each) => (/^[nr]/.test(each) ? [each, each.slice(1)] : [each]));
  const kept = begun.map((each) => each.replace(SKIPPED, ""));
  // The scan may skip a backslash at the end of a beginning together with the next character.
  if (kept.some(({ length }) => length <= BEGINNING_CHARS)) return { mightContain: () => true };
  const packed = new Set(kept.map((each) => Buffer.from(each).readInt32BE()));
  const isPossible = new Uint8Array(1 << SLOT_BITS);
  for (const each of packed) isPossible[slotOf(each)] = 1;
  return {
    mightContain(text) {
      let last = 0;
      for (let i = 0; i < text.length; i++) {
        const code = text.charCodeAt(i);
        if (code <= BLANK || code === COLON || code > TILDE) continue;
        if (code === BACKSLASH) {
          const next = text.charCodeAt(i + 1);
          if (next === N || next === R) {
            i += 1;
            continue;
          }
        }
        last = (last << 8) | code;
        if (isPossible[slotOf(last)] === 1 && packed.has(last)) return true;
      }
      return false;
    },
  };
}

const SLOT_BITS = 16;

/** Returns the slot of four packed characters. The factor, 2 ** 32 divided by the golden ratio, spreads them evenly. */
function slotOf(packed: number): number {
  return Math.imul(packed, 0x9e3779b1) >>> (32 - SLOT_BITS);
}

/** Matches digits that continue after a line end or a colon. */
const MAY_BE_BROKEN = /[A-Za-z0-9+/_=-]{2}(?:[\s:]|\\[nr])+[A-Za-z0-9+/_=-]{2}/;
const BREAKS = /(?:[\s:]|\\[nr])+/g;
/** Matches any number of breaks. A digit is no part of a break, so a text splits into digits and breaks in only one way. */
const BREAK = String.raw`(?:[\s:]|\\[nr])*`;
/** Minimum length of a spelling that is searched in broken lines; the pieces of a shorter one are ordinary words. */
const MIN_BROKEN_CHARS = 16;

function digitsOf(value: string): readonly string[] {
  return [...base64Spellings(value), ...hexSpellings(value)].filter(
    ({ length }) => length >= MIN_BROKEN_CHARS,
  );
}

/** Masks spellings with broken lines. Searches the text without breaks first: one expression per spelling costs too much. */
function withoutBroken(text: string): string {
  const joined = text.replace(BREAKS, "");
  let clean = text;
  for (const spelling of digits)
    if (joined.includes(spelling)) clean = clean.replace(brokenAnywhere(spelling), MASK);
  return clean;
}

function brokenAnywhere(spelling: string): RegExp {
  return new RegExp([...spelling].map((char) => char.replace(/[+/]/, String.raw`\$&`)).join(BREAK), "g");
}

/** Maximum depth of the search, because objects may be cyclic. */
const MOST_DEPTH = 12;

/**
 * Returns `fields` with every known secret in names and texts masked, and also every value deeper than `depth`. Returns the
 * same object if nothing was masked.
 */
export function withoutSecretsIn(
  fields: Readonly<Record<string, unknown>>,
  depth = MOST_DEPTH,
): Readonly<Record<string, unknown>> {
  return mayHoldSecret(fields, depth) ? cleanFields(fields, depth) : fields;
}

/** Returns true if {@link withoutSecrets} may change a text in `value`, or if `value` is too deep. Copies nothing. */
function mayHoldSecret(value: unknown, depth: number): boolean {
  if (typeof value === "string") return beginnings?.mightContain(value) === true;
  if (typeof value !== "object" || value === null || beginnings === undefined) return false;
  if (depth === 0) return true;
  if (Array.isArray(value)) return value.some((item) => mayHoldSecret(item, depth - 1));
  if (!isPlain(value)) return false;
  for (const name of Object.keys(value))
    if (mayHoldSecret(name, depth) || mayHoldSecret(value[name], depth - 1)) return true;
  return false;
}

function cleanFields(
  fields: Readonly<Record<string, unknown>>,
  depth: number,
): Readonly<Record<string, unknown>> {
  let isClean = true;
  const clean = Object.entries(fields).map(([name, field]) => {
    const shown = [withoutSecrets(name), cleaned(field, depth - 1)] as const;
    isClean &&= shown[0] === name && shown[1] === field;
    return shown;
  });
  return isClean ? fields : Object.fromEntries(clean);
}

function cleaned(value: unknown, depth: number): unknown {
  if (typeof value === "string") return withoutSecrets(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth === 0) return MASK;
  if (Array.isArray(value)) {
    const items = value.map((item) => cleaned(item, depth - 1));
    return items.some((item, i) => item !== value[i]) ? items : value;
  }
  return isPlain(value) ? cleanFields(value, depth) : value;
}

function isPlain(value: object): value is Record<string, unknown> {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Masks secrets in a text that arrives in pieces. A possible beginning of a secret is held back until the next piece. */
export interface SecretFilter {
  /** Returns the new part of the text that may be shown. */
  push(piece: string): string;
  /** Returns the rest. */
  end(): string;
}

/** Creates a {@link SecretFilter}. */
export function secretFilter(): SecretFilter {
  let held = "";
  return {
    push(piece) {
      const text = held + piece;
      const at = known.length === 0 ? text.length : certainLength(text);
      held = text.slice(at);
      return withoutSecrets(text.slice(0, at));
    },
    end() {
      const rest = withoutSecrets(held);
      held = "";
      return rest;
    },
  };
}

/** Returns the length of the part of `text` that can be masked now: no secret begins in it and ends after it. */
function certainLength(text: string): number {
  let at = text.length;
  for (const spelling of known) at = Math.min(at, text.length - overlap(text, spelling));
  // A complete secret in which another one may begin is not cut in two.
  for (let moved = true; moved; ) {
    moved = false;
    for (const spelling of known) {
      const begin = text.lastIndexOf(spelling, at - 1);
      if (begin < 0 || begin >= at || begin + spelling.length <= at) continue;
      at = begin;
      moved = true;
    }
  }
  return at;
}

/** Returns how many last characters of `text` are the first ones of `spelling`, but not all of it. */
function overlap(text: string, spelling: string): number {
  let at = Math.max(0, text.length - spelling.length + 1);
  for (;;) {
    at = text.indexOf(spelling.charAt(0), at);
    if (at < 0) return 0;
    if (spelling.startsWith(text.slice(at))) return text.length - at;
    at++;
  }
}

function spellingsOf(value: string): string[] {
  const inJson = jsonSpellings(value).flatMap((each) => [each, ...jsonSpellings(each)]);
  const all = [value, ...inJson, ...urlSpellings(value), ...hexSpellings(value), ...base64Spellings(value)];
  return all.filter((spelling) => spelling.length >= MIN_CHARS);
}

/** Returns the spellings of JavaScript, Python, Go and .NET, slashes escaped or not, digits in lower or upper case. */
function jsonSpellings(value: string): string[] {
  const plain = JSON.stringify(value).slice(1, -1);
  const all = [
    plain,
    plain.replace(/[^\x20-\x7e]/g, codeOf),
    plain.replace(/[&<>]/g, codeOf),
    plain.replaceAll('\\"', '"').replace(/["&'+<>`]|[^\x20-\x7e]/g, codeOf),
  ].flatMap((each) => [each, each.replaceAll("/", "\\/")]);
  const large = all.map((each) => each.replace(/(?<=\\u)[0-9a-f]{4}/g, (digits) => digits.toUpperCase()));
  return [...new Set([...all, ...large])];
}

function codeOf(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function urlSpellings(value: string): string[] {
  // encodeURIComponent throws on a lone surrogate.
  const sendable = value.replace(/\p{Surrogate}/gu, "\uFFFD");
  const login = new URL("redis://h");
  login.password = sendable;
  const whole = encodeURIComponent(sendable);
  const form = new URLSearchParams([["", sendable]]).toString().slice(1);
  const all = [whole, encodeURI(sendable), login.password, form].flatMap((each) => [
    each,
    each.replace(/%[0-9A-F]{2}/g, (byte) => byte.toLowerCase()),
  ]);
  return [...all, encodeURIComponent(whole), encodeURIComponent(all[1] ?? "")];
}

function hexSpellings(value: string): string[] {
  const digits = Buffer.from(value).toString("hex");
  return [digits, digits.toUpperCase()];
}

/** Returns the part that all base64 texts of the value share, after 0, 1 or 2 other bytes of a group of three. */
function base64Spellings(value: string): string[] {
  const bytes = Buffer.from(value);
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    const begin = Math.ceil((before * 8) / 6);
    const whole = Math.floor(((before + bytes.length) * 8) / 6);
    const certain = encoded.slice(begin, whole);
    return [certain, certain.replaceAll("+", "-").replaceAll("/", "_")];
  });
}
