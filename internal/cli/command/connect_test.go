package command

import (
	"errors"
	"testing"
)

func TestNameFlags_ReplacesConfigurationKeys(t *testing.T) {
	err := NameFlags(errors.New("stream.url stream.tls.ca stream.tls.cert stream.tls.key stream.credentials " +
		"stream.nkey stream.token_file stream.name stream.subject " +
		"stream.max_bytes"))
	want := "--daemon --tls-ca --tls-cert --tls-key --creds --nkey --token-file --stream --subject stream.max_bytes"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
