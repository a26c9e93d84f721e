package auth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"loaderd/internal/auth"
)

func TestSignNonce_ProvesTokenAndNonce(t *testing.T) {
	hash, nonce := sha256.Sum256([]byte("producer_token")), []byte("uhTm8MPwoNhhV9g")
	text := func(mac []byte) string { return base64.RawURLEncoding.EncodeToString(mac) }
	signed := text(auth.SignNonce("producer_token", nonce))
	if !auth.VerifyNonce(signed, hash, nonce) {
		t.Error("the signature is refused")
	}
	for name, refused := range map[string]bool{
		"another nonce":     !auth.VerifyNonce(signed, hash, []byte("uhTm8MPwoNhhV9h")),
		"another token":     !auth.VerifyNonce(text(auth.SignNonce("other", nonce)), hash, nonce),
		"the hash as token": !auth.VerifyNonce(text(hash[:]), hash, nonce),
		"no signature":      !auth.VerifyNonce("", hash, nonce),
		"no base64":         !auth.VerifyNonce("?", hash, nonce),
		"a short nonce":     auth.SignNonce("producer_token", nonce[:7]) == nil,
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
