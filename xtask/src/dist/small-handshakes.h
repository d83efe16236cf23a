/* Included before every file of AWS-LC: what only makes handshakes of TLS faster is left out, which is tables of elliptic curves and
   second and third implementations of their arithmetic, a megabyte. Said on the command line, the first name would take AES for
   AVX-512 with it, for the library's header joins the two: so that header comes first. */
#include <openssl/target.h>
#define OPENSSL_SMALL
#define MY_ASSEMBLER_IS_TOO_OLD_FOR_ADX_AVX2
