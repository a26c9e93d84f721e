package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"loaderd/internal/auth"
	"loaderd/internal/cli/command"
	"loaderd/internal/natstest"
)

// On the machine and account of the daemon, commands need no token: they use the token in the daemon's data folder.
func TestCommands_FindTokenOfDataFolder(t *testing.T) {
	s, home, page := newSite(t), t.TempDir(), natstest.FreeAddress(t)
	s.dir = filepath.Join(home, "loaderd-data")
	s.serve("--set", "http.listen="+page)
	loaderd := func(code int, part string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		have := Run(t.Context(), args, nil, &out, &errs)
		if have != code || !strings.Contains(out.String()+errs.String(), part) {
			t.Errorf("%v: exit status %d, %s%s, want %d and %q", args, have, out.String(), errs.String(), code, part)
		}
		return strings.TrimSpace(out.String())
	}
	flight := []string{"--daemon", "grpc://" + s.flight}
	with := func(args ...string) []string { return append(args, flight...) }

	t.Chdir(t.TempDir()) // a folder in which no daemon was started
	for _, args := range [][]string{{"seal"}, {"flush"}, {"run", "show"}, {"ledger", "--step", "0"}} {
		loaderd(command.ExitFailed, "or set the data folder with LOADERD_STREAM__DIR or --daemon", with(args...)...)
	}
	loaderd(command.ExitFailed, filepath.Join("loaderd-data", "flight.token")+": no such file", with("status")...)
	loaderd(command.ExitFailed, "cannot find flight.token in loaderd-data", "page")
	loaderd(command.ExitFailed, "cannot find flight.token in loaderd-data", "token", "flight")

	t.Chdir(home)
	loaderd(command.ExitOK, "flushed run ", with("flush")...)
	link := loaderd(command.ExitOK, "http://"+page+"/#login=", "page")
	token := loaderd(command.ExitOK, "flight_", "token", "flight")

	t.Chdir(t.TempDir())
	loaderd(command.ExitOK, "flushed run ", "flush", "--daemon", s.dir)
	t.Setenv("LOADERD_STREAM__DIR", s.dir)
	loaderd(command.ExitOK, "flushed run ", with("flush")...)
	loaderd(command.ExitUsage, "does not use the token of the data folder", "page", "--set", "flight.insecure=true")

	_, code, _ := strings.Cut(link, "#login=")
	for _, want := range []int{http.StatusOK, http.StatusUnauthorized} { // the link opens the page once
		body := strings.NewReader(fmt.Sprintf(`{"code":%q}`, code))
		r, err := http.Post("http://"+page+"/api/login", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != want || err != nil {
			t.Errorf("%s: %s %s, want %d", link, r.Status, text, want)
		}
		if strings.Contains(string(text), token) {
			t.Errorf("the page has the token itself: %s", text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// Commands send no token, and no other credential that the daemon accepts, to a process that listens on the daemon's
// former address.
func TestCommands_SendNoTokenToImpostor(t *testing.T) {
	s := newSite(t)
	s.serve()()
	token, err := auth.ReadToken(filepath.Join(s.dir, auth.FlightTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan []string, 1)
	impostor := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, call grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(call.Context())
		received <- md.Get("authorization")
		return status.Error(codes.Unavailable, "")
	}))
	l, err := net.Listen("tcp", s.flight)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- impostor.Serve(l) }()
	t.Setenv("LOADERD_STREAM__DIR", s.dir)
	if code, _, _ := s.loaderd("seal", "--daemon", "grpc://"+s.flight); code != command.ExitUnreachable {
		t.Errorf("exit status %d", code)
	}
	impostor.Stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	sent := <-received
	if len(sent) != 1 || strings.Contains(sent[0], token) {
		t.Fatalf("received %q", sent)
	}
	s.serve()
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	client, err := flight.NewClientWithMiddleware(s.flight, nil, nil, plain)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", sent[0])
	results, err := client.DoAction(ctx, &flight.Action{Type: "seal"})
	if err == nil {
		_, err = results.Recv()
	}
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "before the daemon's start") {
		t.Errorf("the daemon takes what the impostor received: %v", err)
	}
}
