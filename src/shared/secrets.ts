/**
 * The secrets that this process was given, and their one way out: none. Everything that leaves it for a model, a parent or a log
 * passes {@link withoutSecrets}.
 *
 * Owns: the values, for the life of the process. Its neighbours say what is a secret where they are handed it: the model's
 * adapter its key, a Redis connection its password, an MCP server its headers and environment.
 *
 * 1. A value is found as it is, as JSON (also JSON within JSON) and URLs spell it, as hexadecimal digits, and within base64 text,
 *    wherever it begins there; in a whole text also where the lines of base64 or hexadecimal digits are broken.
 * 2. A text that holds none is returned as it is; while no secret is known nothing is looked at.
 * 3. Values of fewer than 8 characters are not kept: they would be found in ordinary words. Use longer ones. Nor are words, where
 *    a name leaves doubt, and what only says something about a secret (`AUTH_TYPE`, `TOKEN_URL`, `KEY_FILE`).
 */

const MIN_CHARS = 8;
/** What stands where a secret stood. */
export const MASK = "[redacted]";

/** `text` without the name and password of any address in it. */
export function withoutLogins(text: string): string {
  return text.includes("://") ? text.replace(/(?<=:\/\/)[^\s/@]+(?=@)/g, MASK) : text;
}
/** Enough for the secrets of one process; the oldest ones are forgotten beyond that. */
const MAX_SECRETS = 256;
/** Names of headers and variables whose values are secrets. */
const SECRET_NAME = /auth(?!or(?!i))|cookie|credential|key|pass|secret|token/i;
/** How a name ends that says something about a secret: its kind, where it lies, how much there may be of it. */
const ABOUT_A_SECRET =
  /(?:algorithm|audience|dir|directory|email|endpoint|expiry|file|format|host|issuer|limit|method|mode|name|path|policy|provider|scheme|scope|size|sock|ttl|type|ur[il]|version)$/i;
/** Names that leave no doubt, whatever the value looks like. */
const SURELY_SECRET =
  /(?:authorization|pass(?:phrase|wd|word)|secret|token|(?:access|api|private)[-_]?key)$/i;
/** One word, as settings spell their choices. */
const WORD = /^(?:[A-Z]?[a-z]+|[A-Z]+)$/;
const WORD_MAX_CHARS = 12;

/** How a value may be spelled: in one piece, and of these spellings those whose lines may be broken. */
interface Spellings {
  whole: readonly string[];
  digits: readonly string[];
}

const spellings = new Map<string, Spellings>();
let known: readonly string[] = [];
let digits: readonly string[] = [];
let beginnings: Beginnings | undefined;

/** From now on `value` leaves this process no more. */
export function keepSecret(value: string | undefined): void {
  if (value === undefined || value.length < MIN_CHARS || spellings.has(value)) return;
  // Of a value that was read with its line's end, programs show the rest alone.
  if (value !== value.trim()) keepSecret(value.trim());
  spellings.set(value, { whole: spellingsOf(value), digits: digitsOf(value) });
  const [oldest] = spellings.keys();
  if (spellings.size > MAX_SECRETS && oldest !== undefined) spellings.delete(oldest);
  // The longest first: one may hold another.
  const all = [...spellings.values()];
  known = [...new Set(all.flatMap(({ whole }) => whole))].sort((a, b) => b.length - a.length);
  digits = all.flatMap((each) => each.digits);
  beginnings = beginningsOf([...known, ...digits]);
}

/** Keeps the values whose names say that they are secret, with what is secret within them, and the passwords of all addresses. */
export function keepSecretsOf(values: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(values)) {
    keepNamed(name, value);
    keepLoginOf(value);
  }
}

/** Of `Bearer x` also the last word alone, of `Basic x` also the password, of cookies also each value. */
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

/** An ordinary word that was taken for a secret would be masked in everything that a model writes. */
function mayBeSecret(name: string, value: string): boolean {
  if (!SECRET_NAME.test(name) || ABOUT_A_SECRET.test(name)) return false;
  return SURELY_SECRET.test(name) || value.length > WORD_MAX_CHARS || !WORD.test(value);
}

/** What a key looks like that no person chose: neither a path nor a word. */
const LOOKS_DRAWN = /^(?![/.~])(?=\S*\d)(?=\S*[A-Za-z])\S{16,}$/;

/**
 * Keeps what of this process's environment is a secret by its name and by its looks, and the passwords of all addresses in it:
 * also of variables that are another program's.
 */
export function keepSecretsOfEnvironment(env: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value = ""] of Object.entries(env)) {
    if (mayBeSecret(name, value.trim()) && LOOKS_DRAWN.test(value.trim())) keepSecret(value);
    keepLoginOf(value);
  }
}

/** Keeps the password of an address, as it is written and as it is meant, and what of its query is a secret by its name. */
export function keepLoginOf(address: string): void {
  // The last @ ends the login: a password may hold one, and a slash.
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

/** A variable as one argument, or before a command of a shell, also right behind a short option: `TOKEN=x`, `-eTOKEN=x`. No path. */
const VARIABLE = /^(?:-\w)?([A-Za-z_][\w-]*)=(?![/.~])(\S+)/;
/** A header as one argument: `Authorization: Bearer x`. No volume, which has a path behind the colon. */
const HEADER = /^(?:-\w)?([A-Za-z_][\w-]*)\s*:\s*(?![/.~\s])(\S.*)$/s;

/** Keeps the secrets among the arguments of a program: `--api-key=x`, `--token x`, `--header 'Authorization: Bearer x'`, `-e TOKEN=x`. */
export function keepSecretsOfArguments(args: readonly string[]): void {
  for (const [i, arg] of args.entries()) {
    const [, name = "", own] = /^--?([\w-]+)(?:=(.+))?$/s.exec(arg) ?? [];
    const value = own ?? args[i + 1] ?? "";
    if (own !== undefined || !value.startsWith("--")) keepNamed(name, value);
    for (const form of [VARIABLE, HEADER]) {
      const [, field = "", meant = ""] = form.exec(own ?? arg) ?? [];
      keepNamed(field, meant);
    }
    keepLoginOf(arg);
  }
}

/** `text` with a mask in place of every known secret. */
export function withoutSecrets(text: string): string {
  if (!beginnings?.mayBeIn(text)) return text;
  let clean = text;
  for (const spelling of known) if (clean.includes(spelling)) clean = clean.replaceAll(spelling, MASK);
  return digits.length > 0 && MAY_BE_BROKEN.test(clean) ? withoutBroken(clean) : clean;
}

/** How the spellings begin: nearly every text holds no such beginning, and is looked through once. */
interface Beginnings {
  mayBeIn(text: string): boolean;
}

const BEGINNING_CHARS = 4;
/** What stands between no two digits but those of broken lines, and more: a beginning is what is left of a text without it. */
const SKIPPED = /[^!-9;-~]|\\[nr]/g;
const [BLANK, COLON, BACKSLASH, TILDE, N, R] = [32, 58, 92, 126, 110, 114];

function beginningsOf(all: readonly string[]): Beginnings {
  // The first letter may stand behind a backslash, and is skipped with it.
  const begun = all.flatMap((each) => (/^[nr]/.test(each) ? [each, each.slice(1)] : [each]));
  const kept = begun.map((each) => each.replace(SKIPPED, ""));
  // A backslash at its end may be skipped with what follows.
  if (kept.some(({ length }) => length <= BEGINNING_CHARS)) return { mayBeIn: () => true };
  const packed = new Set(kept.map((each) => Buffer.from(each).readInt32BE()));
  const isPossible = new Uint8Array(1 << SLOT_BITS);
  for (const each of packed) isPossible[slotOf(each)] = 1;
  return {
    mayBeIn(text) {
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

/** Four characters, spread evenly: the golden ratio of 2 ** 32. */
function slotOf(packed: number): number {
  return Math.imul(packed, 0x9e3779b1) >>> (32 - SLOT_BITS);
}

/** Digits that go on behind a line's end or a colon. */
const MAY_BE_BROKEN = /[A-Za-z0-9+/_=-]{2}(?:[\s:]|\\[nr])+[A-Za-z0-9+/_=-]{2}/;
const BREAKS = /(?:[\s:]|\\[nr])+/g;
/** However long: no digit is a part of a break, so that there is one way to read a text as digits and breaks. */
const BREAK = String.raw`(?:[\s:]|\\[nr])*`;
/** Spellings from this length on are looked for in broken lines: the pieces of a shorter one are ordinary words. */
const MIN_BROKEN_CHARS = 16;

function digitsOf(value: string): readonly string[] {
  return [...base64Spellings(value), ...hexSpellings(value)].filter(
    ({ length }) => length >= MIN_BROKEN_CHARS,
  );
}

/** Looks for them in the text without its line ends first: an expression for each costs too much. */
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

/** What may lead back to itself is looked into so deep. */
const MOST_DEPTH = 12;

/**
 * `fields` with a mask for every known secret in their names and texts, and for what lies deeper than `depth`; the same object
 * where there is none.
 */
export function withoutSecretsIn(
  fields: Readonly<Record<string, unknown>>,
  depth = MOST_DEPTH,
): Readonly<Record<string, unknown>> {
  return mayHoldSecret(fields, depth) ? cleanFields(fields, depth) : fields;
}

/** Whether a text in `value` may be changed by {@link withoutSecrets}; what lies too deep is. Nothing is copied for that. */
function mayHoldSecret(value: unknown, depth: number): boolean {
  if (typeof value === "string") return beginnings?.mayBeIn(value) === true;
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

/** A text that comes piece by piece, without secrets: what may be the beginning of one is held back until the next piece. */
export interface SecretFilter {
  /** What may be shown of the text so far and was not yet. */
  push(piece: string): string;
  /** The rest. */
  end(): string;
}

/** See {@link SecretFilter}. */
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

/** How much of `text` can be judged whatever follows: no secret begins in it and ends behind it. */
function certainLength(text: string): number {
  let at = text.length;
  for (const spelling of known) at = Math.min(at, text.length - overlap(text, spelling));
  // A secret that is whole, and within which another may begin, is not cut in two.
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

/** How many of the last characters of `text` are the first ones of `spelling`, but not all of it. */
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

/** As JavaScript, Python, Go and .NET spell it, with slashes escaped or not, with small digits or large ones. */
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
  // What cannot stand in a URL would be refused there.
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

/** What of the value is the same in any base64 text that holds it, behind 0, 1 or 2 other bytes of a group of three. */
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
