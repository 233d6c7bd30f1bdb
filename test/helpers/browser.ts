/**
 * Opens the machine's Chromium (`CHROMIUM_BIN`, else /usr/bin/chromium) with a fresh profile and no background traffic.
 * The end of the test (or file) closes it and removes the profile.
 */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, chromium, type Page } from "playwright-core";
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

/** Opens a browser with one page of `width` × 900 pixels, in a light or dark desktop. */
export async function openPage(
  width = 1280,
  colorScheme: "light" | "dark" = "light",
): Promise<{ page: Page; misconduct: Misconduct }> {
  const profile = await mkdtemp(join(tmpdir(), "browser-"));
  closeAtEnd(() => rm(profile, { recursive: true, force: true, maxRetries: 5 }));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: EXECUTABLE,
    args: QUIET,
    viewport: { width, height: 900 },
    colorScheme,
  });
  closeAtEnd(() => context.close());
  const page = context.pages()[0] ?? (await context.newPage());
  return { page, misconduct: watch(context, page) };
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
