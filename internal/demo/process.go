package demo

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"loaderd/internal/config"
)

// command returns a command of this program. Settings in the environment, which are for the user's own daemons, do
// not apply to it.
func command(arguments ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	c := exec.Command(program)
	c.Args = append([]string{"loaderd"}, arguments...)
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, config.EnvPrefix) })
	ownGroup(c)
	return c, nil
}

// programName returns what the user can type to run this program: loaderd if it is on the PATH.
func programName() string {
	program, err := os.Executable()
	if _, missing := exec.LookPath("loaderd"); missing == nil || err != nil {
		return "loaderd"
	}
	if strings.Contains(program, "go-build") { // a temporary file of go run
		return "go run ./cmd/loaderd"
	}
	return program
}

// processLog receives the standard error of a process. It passes on log lines, and keeps the last line, which is the
// message of a process that failed.
type processLog struct {
	log     io.Writer
	mu      sync.Mutex
	message string
}

// messagePrefix begins the message of a command that failed.
const messagePrefix = "loaderd: "

// Write implements io.Writer.
func (l *processLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(p) {
		text, isMessage := strings.CutPrefix(string(bytes.TrimSpace(line)), messagePrefix)
		if l.message = text; isMessage {
			continue
		}
		if _, err := l.log.Write(line); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// lastLine returns the last line, or otherwise if there is none.
func (l *processLog) lastLine(otherwise string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.message, otherwise)
}
