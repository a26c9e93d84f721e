package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A daemon continues when its terminal closes: it logs SIGHUP, even if the reader of its log has exited. SIGTERM
// stops it.
func TestServe_ContinuesAfterSIGHUP(t *testing.T) {
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "loaderd.yaml")
	configure := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("flight: {max_streams: 7}")
	cmd := exec.CommandContext(t.Context(), "loaderd", append([]string{"serve", "-c", file}, s.settings()...)...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := &bytes.Buffer{}
	until := func(part string) {
		for b := make([]byte, 4096); !strings.Contains(said.String(), part); {
			n, err := log.Read(b)
			said.Write(b[:n])
			if err != nil {
				t.Fatalf("%v before %q; log: %s", err, part, said)
			}
		}
	}
	send := func(x syscall.Signal) {
		if err := cmd.Process.Signal(x); err != nil {
			t.Fatal(err)
		}
	}
	until("msg=ready")
	configure("flight: {max_streams: 9, send_bytes: 64MiB}")
	send(syscall.SIGHUP)
	until("SIGHUP: reloading certificates, tokens, identities and limits of Flight")
	until("max_streams=9 max_streams_per_identity=4096 max_committing_jobs_per_identity=16 send_bytes=67108864 " +
		"slow_reader_timeout=5m0s")
	configure("flight: {max_streams: 0}")
	send(syscall.SIGHUP)
	until("limits are unchanged")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	send(syscall.SIGHUP)
	s.does("seal") // it serves and logs as before
	send(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v: %s", err, said)
	}
}

// A daemon that a program started exits when that program closes the daemon's standard input, or exits.
func TestServe_UntilEOFExitsWithParent(t *testing.T) {
	s := newSite(t)
	cmd := exec.CommandContext(t.Context(), "loaderd", append([]string{"serve", "--until-eof"}, s.settings()...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(log)
	for {
		line, err := said.ReadString('\n')
		if err != nil {
			t.Fatalf("the daemon is not ready: %v", err)
		}
		if strings.Contains(line, "msg=ready") {
			break
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(said)
	if err := cmd.Wait(); err != nil || !strings.Contains(string(rest), "stopping") {
		t.Errorf("the daemon ended with %v; output: %s", err, rest)
	}
	out, err := exec.CommandContext(t.Context(), "loaderd", "serve", "--until-eof", "-c", "-").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "both read standard input") {
		t.Errorf("--until-eof -c - gives %v: %s", err, out)
	}
}
