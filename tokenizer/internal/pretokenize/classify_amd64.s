//go:build !purego

#include "textflag.h"

// ALL is a constant of 32 equal bytes.
#define ALL(name, eight) \
	DATA name<>+0(SB)/8, eight \
	DATA name<>+8(SB)/8, eight \
	DATA name<>+16(SB)/8, eight \
	DATA name<>+24(SB)/8, eight \
	GLOBL name<>(SB), RODATA|NOPTR, $32

ALL(bit5, $0x2020202020202020)
ALL(a, $0x6161616161616161)
ALL(z, $0x1919191919191919)
ALL(zero, $0x3030303030303030)
ALL(nine, $0x0909090909090909)
ALL(quote, $0x2727272727272727)
ALL(lf, $0x0a0a0a0a0a0a0a0a)
ALL(cr, $0x0d0d0d0d0d0d0d0d)
ALL(tab, $0x0909090909090909)
ALL(four, $0x0404040404040404)
ALL(del, $0x7f7f7f7f7f7f7f7f)
ALL(first, $0xc0c0c0c0c0c0c0c0)

// JOIN makes one mask of the top bits of the bytes of Y2 and Y3.
#define JOIN(R) \
	VPMOVMSKB Y2, R \
	VPMOVMSKB Y3, R15 \
	SHLQ $32, R15 \
	ORQ R15, R

// EQUAL finds the bytes that are c.
#define EQUAL(c) \
	VPCMPEQB c<>(SB), Y0, Y2 \
	VPCMPEQB c<>(SB), Y1, Y3

// WITHIN finds the bytes of A and B in from..from+size.
#define WITHIN(A, B, from, size) \
	VPSUBB from<>(SB), A, Y4 \
	VPSUBB from<>(SB), B, Y5 \
	VPMINUB size<>(SB), Y4, Y2 \
	VPMINUB size<>(SB), Y5, Y3 \
	VPCMPEQB Y4, Y2, Y2 \
	VPCMPEQB Y5, Y3, Y3

// func classifyKernel(m *masks, p *block)
TEXT ·classifyKernel(SB), NOSPLIT, $0-16
	MOVQ m+0(FP), DI
	MOVQ p+8(FP), SI
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VPSLLW $2, Y0, Y2         // bit 5 tells lower from upper case
	VPSLLW $2, Y1, Y3
	JOIN(AX)
	VPOR bit5<>(SB), Y0, Y6
	VPOR bit5<>(SB), Y1, Y7
	WITHIN(Y6, Y7, a, z)
	JOIN(BX)                  // letters
	MOVQ BX, CX
	ANDQ AX, CX               // lower
	XORQ CX, BX               // upper
	MOVQ BX, (DI)
	MOVQ CX, 8(DI)
	WITHIN(Y0, Y1, zero, nine)
	JOIN(AX)
	MOVQ AX, 16(DI)           // digit
	EQUAL(lf)
	VPCMPEQB cr<>(SB), Y0, Y4
	VPCMPEQB cr<>(SB), Y1, Y5
	VPOR Y4, Y2, Y2
	VPOR Y5, Y3, Y3
	JOIN(AX)
	MOVQ AX, 40(DI)           // newline
	WITHIN(Y0, Y1, tab, four)
	JOIN(BX)                  // tab to carriage return
	EQUAL(bit5)
	JOIN(CX)
	MOVQ CX, 32(DI)           // space
	XORQ BX, AX               // tab, vertical tab, form feed
	ORQ CX, AX
	MOVQ AX, 24(DI)           // blank
	EQUAL(quote)
	JOIN(AX)
	MOVQ AX, 48(DI)           // apostrophe
	VMOVDQU bit5<>(SB), Y6
	EQUAL(del)
	VPCMPGTB Y0, Y6, Y4       // below space, or not ASCII
	VPCMPGTB Y1, Y6, Y5
	VPOR Y4, Y2, Y2
	VPOR Y5, Y3, Y3
	JOIN(AX)
	ANDNQ AX, BX, AX
	MOVQ AX, 56(DI)           // wide
	XORL BX, BX
	TESTQ AX, AX
	JEQ  ascii
	VMOVDQU first<>(SB), Y6
	VPCMPGTB Y0, Y6, Y2       // 0x80 to 0xbf
	VPCMPGTB Y1, Y6, Y3
	JOIN(AX)
	VMOVDQA Y0, Y2
	VMOVDQA Y1, Y3
	JOIN(BX)
	XORQ AX, BX

ascii:
	MOVQ AX, 64(DI)           // inside
	MOVQ BX, 72(DI)           // first
	VZEROUPPER
	RET
