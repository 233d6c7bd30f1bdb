/**
 * Opens the machine's Chromium (`CHROMIUM_BIN`, else /usr/bin/chromium) with a fresh profile and no background traffic, once for
 * a test file: a start costs 2 s of CPU. The end of a test closes its pages.
 */
import { existsSync } from "node:fs";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll } from "vitest";
import { closeAtEnd } from "./cleanup.ts";

const EXECUTABLE = process.env.CHROMIUM_BIN ?? "/usr/bin/chromium";
const QUIET = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-quic",
  "--no-first-run",
  "--disable-component-update",
  "--disable-sync",
];

/** Whether this machine has the browser. */
export const hasBrowser = existsSync(EXECUTABLE);

/** Errors and requests of a page that our pages must not have. */
export interface Misconduct {
  /** Console errors, uncaught exceptions, failed requests and responses with an error status. */
  complaints: string[];
  /** Requested HTTP URLs outside of loopback. */
  foreign: string[];
}

/** The browser of a test file; called at its top. It starts with the first page, and the end of the file closes it. */
export function browserOfThisFile(): {
  /** Opens a page of `width` × 900 pixels, in a light or dark desktop; it shares no cookies and no storage with another. */
  openPage(width?: number, colorScheme?: "light" | "dark"): Promise<{ page: Page; misconduct: Misconduct }>;
} {
  let browser: Promise<Browser> | undefined;
  afterAll(async () => (await browser)?.close());
  return {
    async openPage(width = 1280, colorScheme = "light") {
      browser ??= chromium.launch({ executablePath: EXECUTABLE, args: QUIET });
      const context = await (await browser).newContext({ viewport: { width, height: 900 }, colorScheme });
      closeAtEnd(() => context.close());
      const page = await context.newPage();
      return { page, misconduct: watch(context, page) };
    },
  };
}

function watch(context: BrowserContext, page: Page): Misconduct {
  const misconduct: Misconduct = { complaints: [], foreign: [] };
  const { complaints, foreign } = misconduct;
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  context.on("request", (request) => {
    const { protocol, hostname } = new URL(request.url());
    if (protocol.startsWith("http") && hostname !== "127.0.0.1" && hostname !== "localhost")
      foreign.push(request.url());
  });
  context.on("requestfailed", (request) => {
    // The browser aborts pending requests when a page is left.
    const why = request.failure()?.errorText ?? "";
    if (why !== "net::ERR_ABORTED") complaints.push(`${request.url()}: ${why}`);
  });
  context.on("response", (response) => {
    if (response.status() >= 400) complaints.push(`${response.url()}: ${response.status()}`);
  });
  return misconduct;
}
