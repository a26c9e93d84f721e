package daemonfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"loaderd/internal/daemonfile"
)

func TestAddresses_AreOfTheLastDaemon(t *testing.T) {
	dir := t.TempDir()
	if a, err := daemonfile.Read(dir); err != nil || a != (daemonfile.Addresses{}) {
		t.Errorf("an empty folder has %+v, %v", a, err)
	}
	first := daemonfile.Addresses{PID: 1, Run: "a", Flight: "grpc://127.0.0.1:1", HTTP: "http://127.0.0.1:2"}
	second := daemonfile.Addresses{PID: 2, Run: "b", Flight: "grpc://127.0.0.1:3"}
	for _, a := range []daemonfile.Addresses{first, second} {
		if err := daemonfile.Write(dir, a); err != nil {
			t.Fatal(err)
		}
		if got, err := daemonfile.Read(dir); err != nil || got != a {
			t.Errorf("got %+v, %v, want %+v", got, err, a)
		}
	}
	if err := daemonfile.Remove(dir, first.PID); err != nil {
		t.Error(err)
	}
	if got, _ := daemonfile.Read(dir); got != second {
		t.Errorf("the first daemon removed the file of the second: %+v", got)
	}
	if err := daemonfile.Remove(dir, second.PID); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("the folder has %v, %v", files, err)
	}
}

func TestRead_RefusesDamagedFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, daemonfile.Name), []byte(`{"pid":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := daemonfile.Read(dir); err == nil {
		t.Errorf("got %+v", a)
	}
}
