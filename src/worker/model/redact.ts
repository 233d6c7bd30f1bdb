/** Makes a provider's message fit to be stored and shown: no credentials, one line, bounded. Pure. */

/** Longest message that leaves the port, in UTF-16 code units. */
export const MAX_MESSAGE_CHARS = 500;

/** Shorter secrets are not searched for literally: removing "test" everywhere would garble every sentence. */
const MIN_LITERAL_SECRET_CHARS = 6;

/** Far more than is kept, little enough that no hostile body costs time. */
const MAX_INSPECTED_CHARS = 8_000;

const MASK = "[redacted]";

const CREDENTIALS: readonly [RegExp, string][] = [
  [/\b(bearer|basic)\s+[^\s"',;]+/gi, `$1 ${MASK}`],
  [
    /\b(authorization|x-api-key|api[-_ ]?key|auth[-_ ]?token|password|secret)(["']?\s*[:=]\s*["']?)[^\s"',;]+/gi,
    `$1$2${MASK}`,
  ],
  [/\bsk-[\w-]{6,}/g, MASK],
  [/\beyJ[\w-]{8,}\.[\w.-]+/g, MASK],
  [/(:\/\/)[^\s/@]+@/g, `$1${MASK}@`],
  [/\b[\w-]{40,}\b/g, MASK],
];

/**
 * `text` without anything that is or looks like a credential, with control characters and runs of white space
 * turned into one space, cut to {@link MAX_MESSAGE_CHARS}.
 *
 * @param secrets credentials to remove literally
 */
export function redact(text: string, secrets: readonly string[] = []): string {
  let clean = text;
  for (const secret of secrets) {
    if (secret.length >= MIN_LITERAL_SECRET_CHARS) clean = clean.replaceAll(secret, MASK);
  }
  clean = clean.slice(0, MAX_INSPECTED_CHARS);
  for (const [pattern, replacement] of CREDENTIALS) clean = clean.replace(pattern, replacement);
  clean = clean.replace(/[\s\p{Cc}]+/gu, " ").trim();
  if (clean.length <= MAX_MESSAGE_CHARS) return clean;
  return `${clean.slice(0, MAX_MESSAGE_CHARS - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
