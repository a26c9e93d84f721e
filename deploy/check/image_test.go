package check

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

const context = "../.." // of the Dockerfile

// image returns the last stage of deploy/Dockerfile, parsed and linted by BuildKit's parser.
func image(t *testing.T) (last instructions.Stage) {
	t.Helper()
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range tree.Warnings {
		t.Errorf("deploy/Dockerfile: %s", w.Short)
	}
	lints := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		t.Errorf("deploy/Dockerfile: %s: %s", rule, message)
	}})
	stages, _, err := instructions.Parse(tree.AST, lints)
	if err != nil {
		t.Fatal(err)
	}
	return stages[len(stages)-1]
}

// of returns the only instruction of a kind.
func of[T any](t *testing.T, stage instructions.Stage) (found T) {
	t.Helper()
	n := 0
	for _, c := range stage.Commands {
		if x, ok := c.(T); ok {
			found, n = x, n+1
		}
	}
	if n != 1 {
		t.Fatalf("%d of %T", n, found)
	}
	return found
}

// root builds the image's root: the files that the Dockerfile copies, from the repository and from its other stage.
func root(t *testing.T, stage instructions.Stage) string {
	t.Helper()
	root := t.TempDir()
	from := map[string]string{"/out/loaderd": loaderd(t),
		"/etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt"}
	for _, c := range stage.Commands {
		copied, ok := c.(*instructions.CopyCommand)
		if !ok {
			continue
		}
		for _, path := range copied.SourcePaths {
			if path == "/root-of-image/" {
				for _, folder := range []string{"data", "tmp"} {
					if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				continue
			}
			source := filepath.Join(context, path)
			if copied.From != "" {
				if source = from[path]; source == "" {
					t.Fatalf("%s of the stage %s is not known here", path, copied.From)
				}
			}
			content, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(root, copied.DestPath)
			if strings.HasSuffix(copied.DestPath, "/") {
				target = filepath.Join(target, filepath.Base(path))
			}
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(target, content, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

// inside runs the image in separate namespaces, with a read-only root except for /data, as the Dockerfile's user. The
// script is outside the root and calls loaderd inside through image. It needs root privileges. Without them the test
// is skipped with a message, and fails where CI is set.
const inside = `set -eu
root=$1; user=$2; shift 2; chroot=$(command -v chroot)
ip link set lo up
mount --bind "$root" "$root"
mkdir -p "$root/proc"; mount --bind /proc "$root/proc"
mount -o remount,ro,bind "$root"
mount -t tmpfs -o mode=0700,uid=${user%%:*},gid=${user##*:} tmpfs "$root/data"
within="env -i PATH=/usr/bin HOME=/data $chroot --userspec=$user $root"
image() { $within "$@"; }
$within "$@" & daemon=$!
trap 'kill -9 $daemon 2>/dev/null || true' EXIT
`

const story = `
image /usr/bin/loaderd health --ready --wait 2m
image $HEALTH
seq 1 3000 | sed 's/.*/{"text": "document & is a short one, and yet it has some words", "id": "&"}/' | image /usr/bin/loaderd publish --daemon /data/loaderd -
image /usr/bin/loaderd seal --daemon /data/loaderd
image /usr/bin/loaderd ledger --daemon /data/loaderd --step 0 | sed -n 1p
if image /usr/bin/touch /x 2>/dev/null; then echo there is a program beside loaderd; exit 1; fi
grep -q '^Uid:[[:space:]]*65532' /proc/$daemon/status || { echo the daemon is another user; exit 1; }
kill -TERM $daemon
wait $daemon
trap - EXIT
image /usr/bin/loaderd run audit --daemon /data/loaderd | sed -n 1p
`

// The image serves, publishes, reads a step and stops, with a read-only root, as a user other than root.
func TestImage_RunsReadOnlyAsNonRoot(t *testing.T) {
	if os.Getuid() != 0 {
		message := "NOT RUN: TestImage_RunsReadOnlyAsNonRoot needs root, to be another user in another root"
		if os.Getenv("CI") != "" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	stage := image(t)
	user := of[*instructions.UserCommand](t, stage).User
	if user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") {
		t.Errorf("the image runs as %q", user)
	}
	health := of[*instructions.HealthCheckCommand](t, stage).Health.Test
	if len(health) < 2 || health[0] != "CMD" {
		t.Fatalf("the health check is %q, want a program without a shell", health)
	}
	entry, cmd := of[*instructions.EntrypointCommand](t, stage), of[*instructions.CmdCommand](t, stage)
	if entry.PrependShell || cmd.PrependShell {
		t.Error("ENTRYPOINT or CMD takes a shell, which the image does not have")
	}
	script := inside + strings.ReplaceAll(story, "$HEALTH", strings.Join(health[1:], " "))
	args := slices.Concat([]string{"--mount", "--net", "bash", "-c", script, "bash", root(t, stage), user}, entry.CmdLine,
		cmd.CmdLine)
	container := exec.CommandContext(t.Context(), "unshare", args...)
	container.WaitDelay = time.Second // for processes that a failure leaves behind
	out, err := container.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"ready\n", "\nok\n", "committed 3000 documents",
		"run default step 0: 64 rows of 2048 tokens", " steps equals the log"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// The image has one program, which needs no library.
func TestImage_IsOneStaticBinary(t *testing.T) {
	stage := image(t)
	if stage.BaseName != "scratch" {
		t.Errorf("the image is made from %s", stage.BaseName)
	}
	out, err := exec.Command("file", "--brief", "--dereference", loaderd(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "statically linked") {
		t.Errorf("loaderd is %s", out)
	}
}
