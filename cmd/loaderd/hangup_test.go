package main

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A daemon whose terminal closes goes on: SIGHUP is logged, and whoever took the log may be gone. SIGTERM stops it.
func TestServeOutlivesItsTerminal(t *testing.T) {
	s := newSite(t)
	cmd := exec.CommandContext(t.Context(), "loaderd", append([]string{"serve"}, s.settings()...)...)
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
				t.Fatalf("%v before %q; the daemon says %s", err, part, said)
			}
		}
	}
	send := func(x syscall.Signal) {
		if err := cmd.Process.Signal(x); err != nil {
			t.Fatal(err)
		}
	}
	until("msg=ready")
	send(syscall.SIGHUP)
	until("SIGHUP: certificates, tokens and identities are read again")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	send(syscall.SIGHUP)
	s.does("seal") // it serves as before, and logs
	send(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v: %s", err, said)
	}
}
