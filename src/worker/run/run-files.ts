/** What a run leaves in its workspace, as its reply lists it: the files that `Parent.files` shows, with their digests. */
import { createHash } from "node:crypto";
import { type LeftFile, MOST_LEFT_FILES } from "../../shared/protocol/reply.ts";
import { withoutSecrets } from "../../shared/secrets.ts";
import { listFiles, readWorkspaceFile, type WorkspaceAddress } from "../../shared/workspace-files.ts";

/** Most files that are looked at, bytes of a path that is listed, and bytes that are read for digests. */
const MOST_SEEN = 1_000;
const PATH_MAX_BYTES = 256;
const MOST_DIGESTED_BYTES = 32 * 1024 * 1024;

/** The part of a reply that is about files; empty where there are none. */
export interface LeftFiles {
  files?: LeftFile[];
  more_files?: true;
}

/** The files that stand in a workspace now. Never rejects: a reply does not fail for what it lists. */
export async function leftFiles(workspace: WorkspaceAddress): Promise<LeftFiles> {
  const all = await listFiles(workspace, MOST_SEEN).catch(() => []);
  const listed = all
    .filter(({ path }) => Buffer.byteLength(path) <= PATH_MAX_BYTES)
    .slice(0, MOST_LEFT_FILES);
  const files: LeftFile[] = [];
  let left = MOST_DIGESTED_BYTES;
  for (const { path, size_bytes } of listed) {
    const bytes =
      size_bytes <= left ? await readWorkspaceFile(workspace, path).catch(() => undefined) : undefined;
    left -= bytes?.length ?? 0;
    const sha256 = bytes && createHash("sha256").update(bytes).digest("hex");
    files.push({
      path: withoutSecrets(path),
      size_bytes: bytes?.length ?? size_bytes,
      ...(sha256 && { sha256 }),
    });
  }
  return {
    ...(files.length > 0 && { files }),
    ...(all.length > files.length && { more_files: true }),
  };
}
