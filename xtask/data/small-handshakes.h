/* Included before every file of AWS-LC: drops elliptic-curve tables and alternative arithmetic that only speed up TLS handshakes
   (1 MB). target.h comes first because with MY_ASSEMBLER_IS_TOO_OLD_FOR_ADX_AVX2 set it would also disable AVX-512 for AES. */
#include <openssl/target.h>
#define OPENSSL_SMALL
#define MY_ASSEMBLER_IS_TOO_OLD_FOR_ADX_AVX2
