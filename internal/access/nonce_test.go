package access_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"loaderd/internal/access"
)

func TestSignNonce_ProvesTokenAndNonce(t *testing.T) {
	hash, nonce := sha256.Sum256([]byte("producer_token")), []byte("uhTm8MPwoNhhV9g")
	text := func(mac []byte) string { return base64.RawURLEncoding.EncodeToString(mac) }
	signed := text(access.SignNonce("producer_token", nonce))
	if !access.SignedNonce(signed, hash, nonce) {
		t.Error("the signature is refused")
	}
	for name, refused := range map[string]bool{
		"another nonce":     !access.SignedNonce(signed, hash, []byte("uhTm8MPwoNhhV9h")),
		"another token":     !access.SignedNonce(text(access.SignNonce("other", nonce)), hash, nonce),
		"the hash as token": !access.SignedNonce(text(hash[:]), hash, nonce),
		"no signature":      !access.SignedNonce("", hash, nonce),
		"no base64":         !access.SignedNonce("?", hash, nonce),
		"a short nonce":     access.SignNonce("producer_token", nonce[:7]) == nil,
	} {
		if !refused {
			t.Errorf("%s is accepted", name)
		}
	}
	const want = "bQTSYIfkTslQ2AOJL5MeMlCcc887_Y2RYyR0WNTfM8A"
	if signed != want {
		t.Errorf("the signature is %s, want %s, as Python has it", signed, want)
	}
}
