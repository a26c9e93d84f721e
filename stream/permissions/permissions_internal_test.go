package permissions

import "testing"

func TestIsSharedAccount_DefaultAccountOfRemoteServer(t *testing.T) {
	for _, c := range []struct {
		account, server string
		want            bool
	}{
		{"$G", "nats://nats-1:4222", true},
		{"$G", "tls://10.1.2.3:4222", true},
		{"$G", "nats://127.0.0.1:4222", false},
		{"$G", "nats://localhost:4222", false},
		{"LOADERD", "nats://nats-1:4222", false},
		{"", "nats://nats-1:4222", false},
	} {
		if got := isSharedAccount(c.account, c.server); got != c.want {
			t.Errorf("account %q at %s: open is %v", c.account, c.server, got)
		}
	}
}
