package server

import (
	"os"
	"testing"
)

// Distinct members have different names, whatever the names of their machines.
func TestMember_NamesAreDistinct(t *testing.T) {
	host, err := os.Hostname()
	if err != nil || isUnspecificHost(host) {
		t.Skipf("this machine is called %q, %v", host, err)
	}
	host = invalidNameChars.ReplaceAllString(host, "-")
	for _, tc := range []struct{ listen, advertise, want string }{
		{"127.0.0.1:6222", "", host + "-6222"},
		{"0.0.0.0:6222", "", host + "-6222"},
		{"10.0.0.7:6222", "", "10-0-0-7-6222"},
		{"0.0.0.0:6222", "host-b.corp:7222", "host-b-corp-7222"},
		{"127.0.0.1:6222", "127.0.0.1:1", host + "-6222"}, // a forwarded port that all members may share
		{"[::1]:6222", "", host + "-6222"},
	} {
		if name, err := (Cluster{Name: "corpus", Listen: tc.listen, Advertise: tc.advertise}).serverName(); err != nil ||
			name != tc.want {
			t.Errorf("listen %s, advertise %q: %s, %v, want %s", tc.listen, tc.advertise, name, err, tc.want)
		}
	}
	if name, err := (Cluster{}).serverName(); err != nil || name != standaloneName {
		t.Errorf("alone: %s, %v", name, err)
	}
}
